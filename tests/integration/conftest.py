"""Fixtures of the command-line tests, which need the ``cli`` extra."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from tests.command_line import write_csv, write_gmt

from gpower.datasets import load_pitprops, load_planted_expression

collect_ignore_glob = [] if find_spec("typer") else ["test_cli*.py", "test_doctor.py", "test_reference.py"]

EXPRESSION, PITPROPS = load_planted_expression(), load_pitprops()


@pytest.fixture
def data(tmp_path):
    """Write the planted table, and return its path."""
    return write_csv(tmp_path / "x.csv", EXPRESSION.X, EXPRESSION.feature_names, EXPRESSION.sample_names)


@pytest.fixture
def pitprops(tmp_path):
    """Write the correlations of the pit props, and return the path of the file."""
    return write_csv(tmp_path / "pitprops.csv", PITPROPS.correlation, PITPROPS.feature_names, PITPROPS.feature_names)


@pytest.fixture
def gmt(tmp_path):
    """Write the gene sets of the planted table, and return the path of the file."""
    return write_gmt(tmp_path / "sets.gmt", EXPRESSION.gene_sets)


class Command:
    """The command in this process; a call returns its result, whatever its exit status."""

    def __init__(self):
        from typer.testing import CliRunner

        from gpower import cli

        self._run = lambda args: CliRunner().invoke(cli.app, args)

    def __call__(self, *args):
        result = self._run([str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def succeed(self, *args):
        """Return the result of a command that ends with status 0."""
        result = self(*args)
        assert result.exit_code == 0, result.output
        return result

    def read_json(self, *args):
        """Return what a command prints with --json."""
        return json.loads(self.succeed(*args, "--json").stdout)

    def fit_components(self, *args):
        """Return the components of ``gpower fit``."""
        return np.array(self.read_json("fit", *args)["components_"])


@pytest.fixture
def gpower(monkeypatch):
    """Return the command; the terminal is too wide to wrap."""
    monkeypatch.setenv("COLUMNS", "120")
    return Command()
