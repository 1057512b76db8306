"""Fixtures of the command-line tests."""

import pytest
from tests.command_line import write_csv, write_gmt

from gpower.datasets import load_pitprops, load_planted_expression

EXPRESSION, PITPROPS = load_planted_expression(), load_pitprops()


@pytest.fixture
def data(tmp_path):
    """Write the planted table, without names of samples, and return its path."""
    return write_csv(tmp_path / "x.csv", EXPRESSION.X, EXPRESSION.feature_names)


@pytest.fixture
def pitprops(tmp_path):
    """Write the correlations of the pit props, and return the path of the file."""
    return write_csv(tmp_path / "pitprops.csv", PITPROPS.correlation, PITPROPS.feature_names, PITPROPS.feature_names)


@pytest.fixture
def gmt(tmp_path):
    """Write the gene sets of the planted table, and return the path of the file."""
    return write_gmt(tmp_path / "sets.gmt", EXPRESSION.gene_sets)


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
