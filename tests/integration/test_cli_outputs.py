"""Output files are checked before the work, written whole or not at all, and never replace the input."""

from pathlib import Path

import numpy as np
import pytest
from tests.command_line import assert_refused, read_records, write_csv

from gpower import GPower, SparsityPath
from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()


RESULTS = ["loadings.csv", "loadings_list.csv", "model.npz", "scores.csv"]


class TestFolders:
    def test_a_folder_that_is_a_file_or_called_like_one(self, gpower, data, tmp_path):
        (tmp_path / "file").touch()
        results = tmp_path / "results.csv"
        assert_refused(gpower("fit", data, "-k", 3, "-o", tmp_path / "file"), "this is a file; the results go into a")
        assert_refused(gpower("fit", data, "-k", 3, "-o", results), "give a folder, such as results.")
        assert not results.exists()

    def test_home(self, gpower, data, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        gpower.succeed("fit", data, "-k", 3, "--output=~/x")
        assert sorted(path.name for path in (tmp_path / "home" / "x").iterdir()) == RESULTS

    def test_an_unwritable_output_is_reported_before_the_fit(self, gpower, data, monkeypatch):
        monkeypatch.setattr("gpower.cli.commands.fit.load_table", None)  # the fit does not start
        if not Path("/proc/self/fd").is_dir():
            pytest.skip("needs a folder that nobody can write into")
        for flag in ("-o /proc/self/fd", "--plot /proc/self/fd/x.png", "--checkpoint /proc/self/fd/c.npz"):
            refused = gpower("fit", data, "-k", 3, *flag.split())
            assert_refused(refused, "/proc/self/fd: ", "nothing can be written here")

    def test_replaced_files_are_named(self, gpower, data, tmp_path):
        out = tmp_path / "out"
        assert gpower("fit", data, "-k", 3, "-o", out).stdout.endswith(f"into {out}.\n")
        assert "replacing those of an earlier run." in gpower("fit", data, "-k", 3, "-o", out).stdout
        (out / "scores.csv").unlink()
        again = gpower("fit", data, "-k", 3, "-o", out).stdout
        assert "replacing loadings.csv, loadings_list.csv, model.npz of an earlier run." in again


def test_the_short_list_has_the_non_zero_loadings(gpower, data, tmp_path):
    gpower("fit", data, "-k", "3,2", "-o", tmp_path / "out")
    lines = read_records(tmp_path / "out" / "loadings_list.csv")
    assert list(lines[0]) == ["component", "variable", "loading"]
    loadings = GPower.load(tmp_path / "out" / "model.npz").loadings()
    expected = [(str(j), name, repr(value)) for j, c in enumerate(loadings, 1) for name, value in c.items()]
    assert [tuple(line.values()) for line in lines] == expected
    assert len(lines) == 5


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


class TestNames:
    HOSTILE = ("=cmd|' /C calc'!A0", "\x1b[2Jclear", "漢字", "[bold]b[/bold]", "plain")

    @pytest.fixture
    def hostile(self, tmp_path):
        X = np.random.default_rng(0).standard_normal((20, 5))
        return write_csv(tmp_path / "x.csv", X, self.HOSTILE)

    def test_hostile_names_are_printed_as_text(self, gpower, hostile):
        printed = gpower("fit", hostile, "-m", 1, "-k", 5).stdout
        assert "\x1b" not in printed
        for text in (r"\x1b[2Jclear", "漢字", "[bold]b[/bold]"):
            assert text in printed

    @pytest.mark.parametrize("safe", [False, True])
    def test_formulas_are_quoted_on_demand(self, gpower, hostile, tmp_path, safe):
        gpower("fit", hostile, "-m", 1, "-k", 5, "-o", tmp_path / "out", *["--safe-csv"] * safe)
        names = [line["variable"] for line in read_records(tmp_path / "out" / "loadings.csv")]
        assert names == ["'" * safe + self.HOSTILE[0], *self.HOSTILE[1:]]

    def test_an_error_quotes_little_and_nothing_that_a_terminal_obeys(self, gpower, tmp_path):
        (tmp_path / "x.csv").write_text(f"a,b\n1,2\n3,\x1b]0;{'y' * 200_000}\n")
        result = gpower("fit", tmp_path / "x.csv")
        assert "\x1b" not in result.stderr
        assert len(result.stderr) < 1000

    def test_a_terminal_without_a_width_loses_no_output(self, gpower, hostile, monkeypatch):
        monkeypatch.setenv("COLUMNS", "0")
        assert "% of variance" in gpower("fit", hostile, "-m", 1, "-k", 2).stdout


def test_resuming_without_a_checkpoint_starts_from_the_beginning(gpower, data, tmp_path):
    result = gpower.succeed("path", data, "-k", "1,2", "--resume", "-o", tmp_path / "out")
    assert "there is no saved path; starting from the beginning" in result.stderr
    assert len(SparsityPath.load(tmp_path / "out" / "path.npz")) == 2
