"""Notes and errors of the commands: estimated values, selected groups, chosen numbers, missing columns."""

import subprocess
import sys

import numpy as np
import pytest
from tests.command_line import write_csv

from gpower import GPower

RNG = np.random.default_rng(0)
NAMES = [f"g{j}" for j in range(12)]
X = RNG.standard_normal((40, 2)) @ RNG.standard_normal((2, 12)) + 0.5 * RNG.standard_normal((40, 12))


def write(path, names=NAMES, X=X, samples=True):
    return write_csv(path, X, names, [f"s{i}" for i in range(len(X))] if samples else None)


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "genes.csv")


@pytest.fixture
def model(gpower, table, tmp_path):
    gpower.succeed("fit", table, "-k", 3, "-o", tmp_path / "out")
    return tmp_path / "out" / "model.npz"


class TestFit:
    def test_pairs_that_are_not_shown_are_counted(self, gpower, table):
        output = gpower("fit", table, "-m", 5, "-k", 6).stdout
        assert output.count(" share ") == 6
        assert "and 5 more pairs share variables" in output

    def test_which_groups_were_chosen(self, gpower, table, tmp_path):
        file = tmp_path / "groups.csv"
        file.write_text("".join(f"{name},set{j // 3}\n" for j, name in enumerate(NAMES[:9])))
        found = gpower("fit", table, "-m", 2, "-k", 2, "--groups", file, "-o", tmp_path / "out")
        model = tmp_path / "out" / "model.npz"
        line = f"Component 1: groups {', '.join(map(str, GPower.load(model).groups_used()[0]))}"
        for printed in (found, gpower("inspect", model)):
            assert line in printed.stdout.splitlines()

    def test_how_the_number_of_components_was_chosen(self, gpower, table):
        note = "note: 2 of up to 12 components explain more than chance at the level 0.05 (p = 0.005, 0.01"
        assert gpower("fit", table, "-m", "auto", "-k", 3).stderr.count(note) == 1

    @pytest.mark.parametrize(
        ("constraint", "against"),
        [
            ((), "% is possible with 2 components of 3 variables each"),
            (("--constraint", "disjoint"), "% of the best possible with no variable in common"),
        ],
    )
    def test_the_bound_on_all_components_is_named(self, gpower, table, constraint, against):
        assert against in gpower("fit", table, "-m", 2, "-k", 3, "--certify", *constraint).stdout


class TestTransform:
    def test_columns_are_matched_by_name(self, gpower, model, table, tmp_path):
        expected = gpower.succeed("transform", model, table)
        turned = write(tmp_path / "turned.csv", NAMES[::-1], X[:, ::-1])
        assert gpower.succeed("transform", model, turned).stdout == expected.stdout
        more = write(tmp_path / "more.csv", [*NAMES[:3], "age", *NAMES[3:]], np.insert(X, 3, 40, axis=1))
        found = gpower.succeed("transform", model, more)
        assert found.stdout == expected.stdout
        assert "note: 1 column(s) are not variables of the model and are left out: age." in found.stderr

    def test_other_columns_need_not_be_numbers(self, gpower, model, table, tmp_path):
        others = np.array([["yes" if i % 2 else "no", "" if i == 3 else i] for i in range(len(X))], object)
        more = write(tmp_path / "more.csv", [*NAMES, "treated", "dose"], np.hstack([X.astype(object), others]))
        found = gpower.succeed("transform", model, more)
        assert found.stdout == gpower.succeed("transform", model, table).stdout
        assert "note: columns that the model does not have are left out: treated, dose." in found.stderr

    def test_a_table_that_lies_the_other_way_round(self, gpower, model, tmp_path):
        file = write_csv(tmp_path / "turned.csv", X.T, [f"s{i}" for i in range(40)], NAMES)
        assert "its rows have these names: add --transpose." in gpower("transform", model, file).stderr

    def test_missing_cells_may_be_estimated(self, gpower, model, tmp_path):
        holes = X.astype(object)
        holes[3, 4] = ""
        file = write(tmp_path / "holes.csv", X=holes)
        assert "estimate such cells with --missing impute" in gpower("transform", model, file).stderr
        found = gpower.succeed("transform", model, file, "--missing", "impute")
        assert "note: 1 missing value(s) are estimated by the components." in found.stderr


def test_a_folder_is_refused_as_a_model(gpower, table):
    folder = table.parent
    assert f"is a folder; give its model file, '{folder / 'model.npz'}'" in gpower("inspect", folder).stderr


def test_a_choice_is_certified_and_drawn(gpower, table, tmp_path):
    choice = ("fit", table, "-m", 1, "-k", "auto", "--grid", "2,3,4", "--certify", "--plot-choice")
    assert "the best possible" in gpower.succeed(*choice, tmp_path / "choice.png").stdout
    assert (tmp_path / "choice.png").read_bytes().startswith(b"\x89PNG")
    assert "this is what the command reads" in gpower(*choice, table).stderr


def test_a_narrow_terminal_breaks_no_word(gpower, table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    table_words = gpower("compare", table, "-k", 3, "--methods", "spca").stdout.split()
    run = [sys.executable, "-m", "gpower", "fit", "--help"]  # its layout is chosen during the import
    help_words = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert {"adjusted", "--index-col"} <= {*table_words, *help_words}
    assert not {"vari", "adju", "--index-c…"} & {*table_words, *help_words}
