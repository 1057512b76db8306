"""Groups, named variables and weights on the command line; ``gpower transform`` and ``gpower inspect``."""

import csv
import io

import numpy as np
import pytest
from tests.command_line import assert_refused, read_records, write_csv, write_gmt

from gpower import GPower, __version__, sparsity_path
from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()
NAMES, X = list(EXPRESSION.feature_names), EXPRESSION.X
GROUPS = {name: f"set{j // 5}" for j, name in enumerate(NAMES)}


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


LABELS = list(GROUPS.values())


@pytest.fixture(scope="module")
def grouped():
    """Return the components of two groups each."""
    return GPower(2, cardinality=2, groups=LABELS).fit(X).components_


@pytest.fixture
def groups(tmp_path):
    return write(tmp_path / "groups.csv", GROUPS.items())


def read_scores(text):
    """Return the scores of a table without its names."""
    return np.array([row[1:] for row in list(csv.reader(io.StringIO(text)))[1:]], float)


def compute_scores(model):
    """Return the scores of the table under a saved model."""
    saved = GPower.load(model)
    return (X - saved.mean_) @ saved.components_.T


class TestRules:
    @pytest.mark.parametrize("header", [[], [["gene", "set"]]], ids=["no header", "header"])
    @pytest.mark.parametrize("with_names", [True, False])
    def test_groups_of_a_file(self, gpower, data, tmp_path, grouped, header, with_names):
        rows = [row if with_names else row[1:] for row in [*header, *map(list, GROUPS.items())]]
        file = write(tmp_path / "groups.csv", rows)
        np.testing.assert_allclose(gpower.fit_components(data, "-m", 2, "-k", 2, "--groups", file), grouped, atol=1e-10)

    def test_groups_of_gene_sets(self, gpower, data, tmp_path, grouped):
        sets = {label: [name for name in NAMES if GROUPS[name] == label] for label in dict.fromkeys(LABELS)}
        sets["set0"].append("NO_VARIABLE")
        flags = ("-m", 2, "-k", 2, "--groups", write_gmt(tmp_path / "sets.gmt", sets))
        np.testing.assert_allclose(gpower.fit_components(data, *flags), grouped, atol=1e-10)
        write_gmt(tmp_path / "sets.gmt", sets | {"twice": NAMES[:1]})
        assert_refused(gpower("fit", data, *flags), f"{NAMES[0]!r} is in 'set0' and in 'twice', and groups")
        write_gmt(tmp_path / "sets.gmt", {"set0": ["nothing"]})
        assert_refused(gpower("fit", data, *flags), "none of its genes is a variable of the table, whose first is")

    def test_groups_of_a_column(self, gpower, tmp_path, grouped):
        rows = [["gene", "set", *(f"s{i}" for i in range(len(X)))]]
        rows += [[name, GROUPS[name], *column] for name, column in zip(NAMES, X.T.tolist(), strict=True)]
        file = write(tmp_path / "genes.csv", rows)
        found = gpower.fit_components(file, "--transpose", "-m", 2, "-k", 2, "--groups", "set")
        np.testing.assert_allclose(found, grouped, atol=1e-10)

    def test_groups_of_cells(self, gpower, tmp_path, grouped):
        anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
        kinds = pandas.DataFrame({"set": pandas.Categorical(LABELS)}, index=NAMES)
        anndata.AnnData(X, var=kinds).write_h5ad(tmp_path / "cells.h5ad")
        found = gpower.fit_components(tmp_path / "cells.h5ad", "-m", 2, "-k", 2, "--groups", "set")
        np.testing.assert_allclose(found, grouped, atol=1e-8)
        refused = gpower("fit", tmp_path / "cells.h5ad", "-k", 2, "--groups", "sets")
        assert_refused(refused, "there is no column 'sets' in .var, which holds")

    def test_variables_by_name_and_number(self, gpower, data):
        first, second = NAMES[3], NAMES[7]
        found = gpower.fit_components(data, "-m", 1, "-k", 6, "--include", f"{first},9", "--exclude", second)
        expected = GPower(1, cardinality=6, include=[3, 9], exclude=[7]).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-10)
        each = gpower.fit_components(data, "-k", 6, "--include", f"{first};{second}")
        expected = GPower(2, cardinality=6, include=[[3], [7]]).fit(X).components_
        np.testing.assert_allclose(each, expected, atol=1e-10)

    def test_costs(self, gpower, data, tmp_path):
        costs = {name: 1 + j % 3 for j, name in enumerate(NAMES)}
        file = write(tmp_path / "costs.csv", [("gene", "cost"), *costs.items()])
        found = gpower.fit_components(data, "-m", 1, "--budget", 9, "--weights", file)
        expected = GPower(1, budget=9, penalty_weights=list(costs.values())).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_a_path_of_groups_shows_how_many_there_are(self, gpower, data, tmp_path, groups):
        result = gpower.succeed("path", data, "-k", "1,2,3", "--groups", groups, "-o", tmp_path / "out")
        rows = read_records(tmp_path / "out" / "path.csv")
        assert [int(row["cardinality"]) for row in rows] == [5, 10, 15]
        head = next(line for line in result.stdout.splitlines() if "variables" in line and "%" in line)
        assert head.split()[:2] == ["groups", "variables"]

    def test_a_number_chosen_by_cross_validation_counts_groups(self, gpower, data, groups):
        result = gpower.succeed("fit", data, "-m", 2, "-k", "auto", "--grid", "1,2", "--groups", groups)
        assert "the numbers of groups, " in result.stderr
        assert "were chosen by cross-validation in 5 folds" in result.stderr


class TestTransformAndInspect:
    @pytest.fixture
    def model(self, gpower, data, tmp_path):
        gpower.succeed("fit", data, "-m", 2, "-k", 6, "--exclude", NAMES[0], "-o", tmp_path / "out")
        return tmp_path / "out" / "model.npz"

    def test_scores_into_a_file(self, gpower, data, model, tmp_path):
        file = tmp_path / "new" / "scores.csv"
        assert gpower.succeed("transform", model, data, "-o", file).stdout == f"Wrote {file}.\n"
        again = gpower.succeed("transform", model, data, "-o", file).stdout
        assert again == f"Wrote {file}, replacing an earlier one.\n"
        scores = file.read_text()
        assert scores.startswith("sample,component_1,component_2")
        np.testing.assert_allclose(read_scores(scores), compute_scores(model), atol=1e-10)
        assert scores == (tmp_path / "out" / "scores.csv").read_text()

    def test_variables_that_no_component_uses_may_be_absent(self, gpower, model, tmp_path):
        used = np.flatnonzero(GPower.load(model).components_.any(axis=0))
        found = gpower("transform", model, write_csv(tmp_path / "few.csv", X[:, used], np.array(NAMES)[used]))
        assert f"{150 - used.size} variable(s) of the model that no component uses are not in the table" in found.stderr
        np.testing.assert_allclose(read_scores(found.stdout), compute_scores(model), atol=1e-10)

    def test_scores_are_printed(self, gpower, model, tmp_path):
        printed = gpower("transform", model, write_csv(tmp_path / "new.csv", X[:3], NAMES)).stdout
        assert [line.split(",")[0] for line in printed.splitlines()] == ["sample", "s0", "s1", "s2"]

    def test_missing_variables_are_named(self, gpower, model, tmp_path):
        used = next(iter(GPower.load(model).loadings()[0]))
        idle = next(name for name in NAMES if not any(name in each for each in GPower.load(model).loadings()))
        few = write_csv(tmp_path / "few.csv", X[:, 2:], [name for name in NAMES if name not in (used, idle)])
        absent = f"2 of the model's 150 variables are not in it, 1 of them used by its components: {used}, {idle};"
        for command in ("plot", "transform"):
            assert_refused(gpower(command, model, few), absent)

    def test_inspect_describes_a_model(self, gpower, model):
        result = gpower.succeed("inspect", model)
        written = f"a GPower, format 1, written by gpower {__version__}"
        for part in (written, "150 variables with names", "cardinality=6", NAMES[0]):
            assert part in result.stdout
        summary = gpower.read_json("inspect", model)
        assert summary["class"] == "GPower"
        assert summary["params"]["exclude"] == [NAMES[0]]
        assert [each["variables"] for each in summary["components"]] == [6, 6]
        wide = gpower.read_json("inspect", model, "--top", 2)["components"][0]["largest loadings"]
        assert wide.endswith(", …")
        assert wide.removesuffix(", …") == ", ".join(summary["components"][0]["largest loadings"].split(", ")[:2])

    def test_inspect_describes_other_files(self, gpower, tmp_path):
        sparsity_path(X, cardinalities=[2, 5]).save(tmp_path / "path.npz")
        assert "2 points of cardinality, 2 to 5" in gpower("inspect", tmp_path / "path.npz").stdout
        GPower(2, cardinality=3, checkpoint=tmp_path / "kept.npz").fit(X)
        assert "a Checkpoint, format 1" in gpower("inspect", tmp_path / "kept.npz").stdout
