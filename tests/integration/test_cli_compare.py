"""``gpower compare``: the table, JSON, files, notes and errors."""

import json

import numpy as np
import pytest
from tests.command_line import read_records, write_csv

from gpower import compare
from gpower.baselines.comparison import METHODS
from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()
FEW = "gpower-l0,greedy,spca"


def test_the_table_has_the_figures_of_the_library(gpower, data):
    result = gpower.succeed("compare", data, "-k", "8,6,5", "--methods", FEW)
    assert "60 samples × 150 variables" in result.stdout
    table = compare(EXPRESSION.X, n_components=3, cardinality=(8, 6, 5), methods=FEW.split(","))
    for entry in table:
        line = next(line for line in result.stdout.splitlines() if line.split()[:1] == [entry.method])
        assert f"{100 * entry.adjusted_variance:.2f} %" in line
        assert f"{100 * entry.share_of_pca:.1f} %" in line
        assert ("8-6-5" if entry.method != "pca" else "3 × 150") in line


def test_all_methods_run_on_the_demo_data(gpower, data):
    result = gpower.succeed("compare", data, "-m", 2, "-k", 8)
    lines = {line.split()[0]: line for line in result.stdout.splitlines()[1:] if "%" in line}
    assert list(lines) == ["pca", *METHODS]
    assert [name for name, line in lines.items() if "–" in line] == ["scikit-learn"]  # its passes are not counted
    assert max(map(len, lines.values())) <= 80


def test_slow_methods_run_on_a_large_table_only_if_asked(gpower, data, monkeypatch):
    monkeypatch.setattr("gpower.baselines.comparison.MAX_ENTRIES_OF_SLOW_METHODS", 60 * 150 - 1)
    result = gpower("compare", data, "-m", 1, "-k", 8)
    reason = "it is slow on a large table; name it in --methods to run it"
    assert result.stdout.splitlines()[-1] == f"Left out: mspca, scikit-learn ({reason})."
    assert (result.stdout.count("mspca"), result.stdout.count("–")) == (1, 0)  # no row of dashes
    result = gpower("compare", data, "-m", 1, "-k", 8, "--methods", "mspca")
    assert "Left out" not in result.stdout


def test_json_and_files(gpower, data, tmp_path):
    folder, picture = tmp_path / "out", tmp_path / "pictures" / "comparison.svg"
    result = gpower("compare", data, "-m", 2, "-k", 8, "--methods", FEW, "--json", "-o", folder, "--plot", picture)
    entries = json.loads(result.stdout)
    assert [entry["method"] for entry in entries] == ["pca", *FEW.split(",")]
    assert entries[1]["cardinality"] == [8, 8]
    assert "Wrote comparison.csv" in result.stderr
    written = read_records(folder / "comparison.csv")
    assert [float(row["adjusted_variance"]) for row in written] == [entry["adjusted_variance"] for entry in entries]
    assert picture.read_text().lstrip().startswith("<?xml")


def test_a_covariance_leaves_out_methods_that_need_samples_with_a_note(gpower, pitprops, tmp_path):
    arguments = ("compare", pitprops, "--covariance", "-m", 1, "-k", 4, "--methods", "gpower-l0,scikit-learn")
    result = gpower.succeed(*arguments, "-o", tmp_path)
    reason = "scikit-learn's SparsePCA needs the samples; it takes no precomputed covariance"
    assert result.stdout.splitlines()[-2:] == [
        f"Left out: scikit-learn ({reason}).",
        f"Wrote comparison.csv into {tmp_path}.",
    ]
    assert read_records(tmp_path / "comparison.csv")[2]["seconds"] == ""
    assert gpower.read_json(*arguments)[2]["seconds"] is None


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("fit", ["-m", 1]),
        ("path", ["-m", 1]),
        ("compare", ["-m", 1, "--methods", "gpower-l0,spca"]),
        ("components", ["-m", 2]),
    ],
)
def test_columns_that_do_not_vary_and_missing_values_are_reported_once(tmp_path, gpower, command, flags):
    X = np.random.default_rng(0).standard_normal((20, 4)).astype(object)
    X[3, 0] = ""
    path = write_csv(tmp_path / "flat.csv", np.column_stack([X, np.full(20, 3)]), "abcde")
    notes = gpower.succeed(command, path, "-k", 2, *flags, "--missing", "impute").stderr
    assert notes.count("1 column(s) do not vary and get no loading: 'e'.") == 1
    assert notes.count("1 missing value(s), 1 % of the table, in 1 variable(s) were estimated.") == 1


def test_a_constraint_holds_or_its_violation_is_reported(gpower, data):
    flags = ("-k", "5,5", "--constraint", "disjoint")
    assert "violation" in gpower.succeed("compare", data, *flags, "--methods", "gpower-l0,thresholding").stdout
    assert "No variable is in two components" in gpower("fit", data, *flags).stdout
