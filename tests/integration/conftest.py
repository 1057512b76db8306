"""What the tests of the command line share."""

import pytest


@pytest.fixture
def gpower(monkeypatch):
    """Run the command and return its result; the terminal is wide enough not to wrap."""
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
