"""``gpower enrich``: the table, JSON, figures, notes and errors."""

import json

import pytest
from tests.command_line import read_records, write_csv, write_gmt

from gpower import GPower
from gpower.analysis.enrichment import enrich
from gpower.datasets import load_planted_expression

TABLE = load_planted_expression()


@pytest.fixture(scope="module")
def model():
    return GPower(3, cardinality=(8, 6, 5)).fit(TABLE.X)


@pytest.fixture
def loadings(tmp_path, model):
    """Write the loadings with a gene in another case, which is noted, and return the path of the file."""
    names = [*TABLE.feature_names[:-1], TABLE.feature_names[-1].lower()]
    return write_csv(tmp_path / "loadings.csv", model.components_.T, ["c1", "c2", "c3"], names)


def test_from_fit_to_enrichment(gpower, data, gmt, tmp_path):
    gpower.succeed("fit", data, "-k", "8,6,5", "-o", tmp_path / "results")
    outputs = [gpower("enrich", tmp_path / "results" / name, "--gmt", gmt) for name in ("loadings.csv", "model.npz")]
    assert [output.exit_code for output in outputs] == [0, 0]
    assert outputs[0].stdout == outputs[1].stdout


def test_printed(gpower, loadings, gmt):
    result = gpower.succeed("enrich", loadings, "--gmt", gmt, "--draws", 30)
    printed = " ".join(result.stdout.split())
    assert result.stderr.startswith("note: 1 gene is written in another case in the gene sets (gene150);")
    assert "1 GROWTH 8 of 8" in printed
    assert "3 of 17 gene sets are enriched in at least one of 3 components (corrected p < 0.05, corrected" in printed
    assert "Pathway enrichment index: 0.1765; of as many random genes: 0.0" in printed
    assert "the average of 30 draws." in printed


def test_csv_and_json_hold_what_the_library_finds(gpower, loadings, gmt, model, tmp_path):
    expected = list(enrich(model, TABLE.gene_sets, genes=TABLE.feature_names, scope="all").records())
    result = gpower(
        "enrich",
        loadings,
        "--gmt",
        gmt,
        "--scope",
        "all",
        "--json",
        "-o",
        tmp_path / "out" / "table.csv",
        "--plot",
        tmp_path / "sets.svg",
    )
    answer = json.loads(result.stdout)
    assert answer["results"] == expected
    assert answer["index"] == pytest.approx(3 / 17)
    assert answer["significant"] == ["GROWTH", "IMMUNE", "STRESS"]
    assert answer["scope"] == "all"
    rows = read_records(tmp_path / "out" / "table.csv")
    assert [row["gene_set"] for row in rows] == [record["gene_set"] for record in expected]
    assert [float(row["p_value"]) for row in rows] == [record["p_value"] for record in expected]
    assert "Wrote" in result.stderr
    assert "GROWTH (1)" in (tmp_path / "sets.svg").read_text()


def test_top_and_show(gpower, loadings, gmt, tmp_path):
    few = gpower("enrich", loadings, "--gmt", gmt, "--top", 2, "--draws", 0)
    assert "2 of 8" in few.stdout
    assert "8 of 8" not in few.stdout
    assert "random" not in few.stdout
    growth = TABLE.modules["GROWTH"]
    many = write_gmt(tmp_path / "many.gmt", {f"G{i}": growth[i:] for i in range(4)} | {"Q": ("GENE1",)})
    assert "and 3 more" in gpower("enrich", loadings, "--gmt", many, "--show", 1, "--draws", 0).stdout


def test_nothing_enriched(gpower, loadings, tmp_path):
    quiet = write_gmt(tmp_path / "quiet.gmt", {"QUIET": TABLE.gene_sets["QUIET_1"]})
    result = gpower.succeed("enrich", loadings, "--gmt", quiet, "--draws", 0)
    assert "None of 1 gene sets are enriched" in result.stdout
    assert "index: 0.0000." in result.stdout
