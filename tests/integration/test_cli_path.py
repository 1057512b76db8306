"""``gpower path``: the table, files, figures, Ctrl-C and --resume."""

import csv
from contextlib import contextmanager

import numpy as np
import pytest
from tests.command_line import write_csv

from gpower import SparsityPath, sparsity_path
from gpower.cli.console import OutputSink
from gpower.datasets import load_pitprops, load_planted_expression

EXPRESSION, PITPROPS = load_planted_expression(), load_pitprops()


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def expression(tmp_path):
    return write_csv(tmp_path / "expression.csv", EXPRESSION.X[:, :40], EXPRESSION.feature_names[:40])


@contextmanager
def interrupted_after(steps):
    """Raise KeyboardInterrupt after some steps of the path."""

    @contextmanager
    def counted(err, what):
        def tell(done, total):
            if done == steps:
                raise KeyboardInterrupt

        yield tell

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputSink, "show_progress_bar", counted)
        yield


def rows(result):
    """Return the lines of the printed table as numbers."""
    lines = (line.split() for line in result.stdout.splitlines())
    return np.array([line for line in lines if len(line) > 2 and line[0].isdigit()], float)


def test_the_table_has_a_line_per_number_of_variables(gpower, pitprops):
    result = gpower.succeed("path", pitprops, "--covariance", "-k", "2,5,13")
    assert result.stderr == ""
    path = sparsity_path(PITPROPS.correlation, covariance="precomputed", cardinalities=[2, 5, 13])
    expected = np.column_stack([path.grid, 100 * path.explained_variance_ratio[:, 0], 100 * path.share_of_pca])
    np.testing.assert_allclose(rows(result), expected, rtol=1e-3)
    assert "pitprops.csv: 13 variables" in result.stdout
    assert not list(pitprops.parent.glob("path.*"))


def test_the_files_hold_every_digit_and_there_is_a_picture(gpower, expression, tmp_path):
    out = tmp_path / "out"
    picture = tmp_path / "deep" / "er" / "t.pdf"
    result = gpower("path", expression, "-m", 2, "-k", "3,6", "-o", out, "--plot", picture)
    assert picture.read_bytes().startswith(b"%PDF")
    assert f"Picture: {picture}" in result.stdout
    assert f"Wrote path.csv, path.npz into {out}" in result.stdout
    path = SparsityPath.load(out / "path.npz")
    expected = sparsity_path(EXPRESSION.X[:, :40], n_components=2, cardinalities=[3, 6])
    assert path.feature_names.tolist() == list(EXPRESSION.feature_names[:40])
    np.testing.assert_allclose(path.adjusted_variance, expected.adjusted_variance)
    with (out / "path.csv").open() as file:
        head, *lines = csv.reader(file)
    assert head == list(path.columns())
    written = [[float(cell or "nan") for cell in line] for line in lines]  # an empty cell, because there is no gamma
    np.testing.assert_array_equal(written, np.column_stack(list(path.columns().values())))


def test_penalties_instead_of_numbers(gpower, expression):
    result = gpower("path", expression, "--gammas", "0.5,0.1", "--penalty", "l1")
    path = sparsity_path(EXPRESSION.X[:, :40], gammas=[0.5, 0.1], penalty="l1")
    np.testing.assert_allclose(rows(result)[:, 1], path.gamma[:, 0], rtol=1e-3)


def test_flags_reach_the_path(gpower, expression, tmp_path):
    flags = ["--scale", "--no-center", "--positive", "--deflation", "schur", "--n-init", 2, "--random-state", 4]
    gpower.succeed("path", expression, "-k", 3, "-m", 2, *flags, "-o", tmp_path)
    params = SparsityPath.load(tmp_path / "path.npz").params
    expected = {"scale": True, "center": False, "positive": True, "deflation": "schur", "n_init": 2, "random_state": 4}
    assert expected.items() <= params.items()


@pytest.mark.parametrize("folder", ["out", None])
def test_an_interrupted_path_is_kept_and_can_be_resumed(gpower, expression, tmp_path, folder):
    where = ["-o", tmp_path / folder] if folder else []
    kept = tmp_path / (folder or "")
    command = ["path", expression, "-k", "2,4,6,9", *where]
    with interrupted_after(2):
        result = gpower(*command)
    assert result.exit_code == 130
    assert rows(result)[:, 0].tolist() == [6, 9]
    assert f"into {kept}" in result.stdout
    assert "2 of 4 points were reached; they are kept" in result.stderr
    assert "Interrupted. Continue with the same command and --resume." in result.stderr
    assert not SparsityPath.load(kept / "path.npz").complete
    resumed = gpower.succeed(*command, "--resume")
    np.testing.assert_array_equal(rows(resumed), rows(gpower(*command)))


def test_a_finished_path_is_only_reported(gpower, expression, tmp_path):
    command = ["path", expression, "-k", "2,4,6,9", "-o", tmp_path / "out"]
    first = gpower(*command)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "out").iterdir()}
    again = gpower.succeed(*command, "--resume")
    assert "path.npz: this path is finished, and stays as it is." in again.stderr
    np.testing.assert_array_equal(rows(again), rows(first))
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "out").iterdir()} == before
