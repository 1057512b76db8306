"""Fixtures of the command-line tests."""

import pytest


@pytest.fixture
def gpower(monkeypatch):
    """Return a function that runs the command and returns its result; the terminal is too wide to wrap."""
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    from typer.testing import CliRunner

    from gpower import cli

    monkeypatch.setenv("COLUMNS", "120")

    def run(*args):
        result = CliRunner().invoke(cli.app, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
