"""Results are in their files before anything is printed, so that no reader of stdout can lose them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.seeds import seeds

RESULTS = ["loadings.csv", "loadings_list.csv", "model.npz", "scores.csv"]
FILES = {
    "fit x.csv -k 3 -o r": RESULTS,
    "fit x.csv -k 3 -o r --plot r/x.png": [*RESULTS, "x.png"],
    "path x.csv -k 3 -o r": ["path.csv", "path.npz"],
    "compare x.csv -k 3 -o r --methods gpower-l0": ["comparison.csv"],
}


def run(*args, stdout):
    command = [sys.executable, "-m", "gpower", *map(str, args)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def closed_pipe():
    """Return the writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("command", seeds(FILES, fast=1))
def test_a_closed_pipe_ends_quietly_with_the_files_in_place(data, tmp_path, monkeypatch, closed_pipe, command):
    if "--plot" in command:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(data.parent)
    result = run(*command.split(), stdout=closed_pipe)
    assert (result.returncode, result.stderr) == (0, "")
    assert list_names(tmp_path / "r") == FILES[command]


@pytest.mark.slow
def test_scores_for_a_closed_pipe(data, tmp_path, closed_pipe):
    assert run("fit", data, "-k", 3, "-o", tmp_path, stdout=subprocess.DEVNULL).returncode == 0
    result = run("transform", tmp_path / "model.npz", data, stdout=closed_pipe)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_stdout_is_an_error_with_the_files_in_place(data, tmp_path):
    with open("/dev/full", "w") as full:
        result = run("fit", data, "-k", 3, "-o", tmp_path / "r", stdout=full)
    assert (result.returncode, result.stderr) == (1, "error: standard output: No space left on device.\n")
    assert list_names(tmp_path / "r") == RESULTS


def test_a_file_that_cannot_be_written_leaves_the_earlier_results_and_the_printed_ones(
    gpower, data, tmp_path, monkeypatch
):
    def fail(folder, *args):
        (folder / "scores.csv").write_text("half")
        raise OSError(28, "No space left on device", str(folder / "model.npz"))

    gpower.succeed("fit", data, "-k", 3, "-o", tmp_path / "r")
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    monkeypatch.setattr("gpower.cli.commands.fit.write_results", fail)
    result = gpower("fit", data, "-k", 5, "-o", tmp_path / "r")
    assert result.exit_code == 1
    assert "% of variance" in result.stdout
    assert "model.npz: No space left on device." in result.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before


def test_a_closed_stderr_does_not_stop_the_fit(data, tmp_path, closed_pipe):
    command = [sys.executable, "-m", "gpower", "fit", data, "-k", "3", "--index-col", "0", "-v", "-o", tmp_path / "r"]
    assert subprocess.run(command, stdout=closed_pipe, stderr=closed_pipe, check=False).returncode == 0
    assert list_names(tmp_path / "r") == RESULTS
