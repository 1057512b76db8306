"""Groups, named variables and weights on the command line; ``gpower transform`` and ``gpower inspect``."""

import csv
import io
import json

import numpy as np
import pytest
from tests.command_line import assert_refused

from gpower import GPower, __version__, sparsity_path
from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()
NAMES, X = list(EXPRESSION.feature_names), EXPRESSION.X
GROUPS = {name: f"set{j // 5}" for j, name in enumerate(NAMES)}


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def read_components(gpower, path, *flags):
    """Return the components of ``gpower fit``."""
    return np.array(gpower.read_json("fit", path, *flags)["components_"])


class TestRules:
    def test_groups_of_a_file(self, gpower, data, tmp_path):
        labels = list(GROUPS.values())
        expected = GPower(2, cardinality=2, groups=labels).fit(X).components_
        alone = [[label] for label in labels]
        for rows in (GROUPS.items(), [("gene", "set"), *GROUPS.items()], alone, [["set"], *alone]):
            file = write(tmp_path / "groups.csv", rows)
            found = read_components(gpower, data, "-m", 2, "-k", 2, "--groups", file)
            np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_groups_of_gene_sets(self, gpower, data, tmp_path):
        sets = {label: [name for name in NAMES if GROUPS[name] == label] for label in dict.fromkeys(GROUPS.values())}
        expected = GPower(2, cardinality=2, groups=list(GROUPS.values())).fit(X).components_

        def gmt(sets):
            lines = ("\t".join([label, "made up", *genes, "NO_VARIABLE"]) for label, genes in sets.items())
            (tmp_path / "sets.gmt").write_text("\n".join(lines))
            return gpower("fit", data, "-m", 2, "-k", 2, "--groups", tmp_path / "sets.gmt", "--json")

        np.testing.assert_allclose(json.loads(gmt(sets).stdout)["components_"], expected, atol=1e-10)
        first = next(iter(sets))
        assert_refused(
            gmt(sets | {"twice": NAMES[:1]}), f"{NAMES[0]!r} is in {GROUPS[NAMES[0]]!r} and in 'twice', and groups"
        )
        assert_refused(gmt({first: ["nothing"]}), "none of its genes is a variable of the table, whose first is")

    def test_groups_of_a_column(self, gpower, tmp_path):
        rows = [["gene", "set", *(f"s{i}" for i in range(len(X)))]]
        rows += [[name, GROUPS[name], *column] for name, column in zip(NAMES, X.T.tolist(), strict=True)]
        file = write(tmp_path / "genes.csv", rows)
        found = read_components(gpower, file, "--transpose", "-m", 2, "-k", 2, "--groups", "set")
        expected = GPower(2, cardinality=2, groups=list(GROUPS.values())).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_groups_of_cells(self, gpower, tmp_path):
        anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
        kinds = pandas.DataFrame({"set": pandas.Categorical(list(GROUPS.values()))}, index=NAMES)
        anndata.AnnData(X, var=kinds).write_h5ad(tmp_path / "cells.h5ad")
        found = read_components(gpower, tmp_path / "cells.h5ad", "-m", 1, "-k", 2, "--groups", "set")
        expected = GPower(1, cardinality=2, groups=list(GROUPS.values())).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-8)
        assert_refused(
            gpower("fit", tmp_path / "cells.h5ad", "-k", 2, "--groups", "sets"),
            "there is no column 'sets' in .var, which holds",
        )

    def test_variables_by_name_and_number(self, gpower, data):
        first, second = NAMES[3], NAMES[7]
        found = read_components(gpower, data, "-m", 1, "-k", 6, "--include", f"{first},9", "--exclude", second)
        expected = GPower(1, cardinality=6, include=[3, 9], exclude=[7]).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-10)
        each = read_components(gpower, data, "-k", 6, "--include", f"{first};{second}")
        assert each.shape[0] == 2
        assert each[0, 3]
        assert each[1, 7]

    def test_costs(self, gpower, data, tmp_path):
        costs = {name: 1 + j % 3 for j, name in enumerate(NAMES)}
        file = write(tmp_path / "costs.csv", [("gene", "cost"), *costs.items()])
        found = read_components(gpower, data, "-m", 1, "--budget", 9, "--weights", file)
        expected = GPower(1, budget=9, penalty_weights=list(costs.values())).fit(X).components_
        np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_a_share(self, gpower, data):
        found = read_components(gpower, data, "-m", 1, "-k", "60%")
        np.testing.assert_allclose(found, GPower(1, cardinality=0.6).fit(X).components_, atol=1e-10)
        several = read_components(gpower, data, "-k", "60%,0.5")
        assert several.shape[0] == 2

    def test_a_path_of_groups(self, gpower, data, tmp_path):
        file = write(tmp_path / "groups.csv", GROUPS.items())
        gpower.succeed("path", data, "-k", "1,2,3", "--groups", file, "-o", tmp_path / "out")
        rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "path.csv").read_text())))
        assert [int(row["cardinality"]) for row in rows] == [5, 10, 15]

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--groups", "nowhere.csv"], "--groups nowhere.csv: there is no such file. A column of DATA can hold"),
            (["--include", "nobody"], "include names 'nobody', but no variable has this name"),
            (["--include", "999"], "include names column 999"),
        ],
    )
    def test_refused(self, gpower, data, flags, message):
        assert_refused(gpower("fit", data, "-k", 3, *flags), message)

    def test_damaged_files(self, gpower, data, tmp_path):
        assert_refused(
            gpower("fit", data, "-k", 3, "--groups", write(tmp_path / "a.csv", [("a", "b", "c")])),
            "a line for each variable is needed: its name and the value, or the value alone",
        )
        assert_refused(
            gpower("fit", data, "--gamma", 0.1, "--weights", write(tmp_path / "b.csv", [(NAMES[0], "dear")])),
            "line 1: 'dear' is not a number",
        )
        assert_refused(
            gpower("fit", data, "-k", 3, "--groups", write(tmp_path / "c.csv", [*GROUPS.items(), ("strange", "x")])),
            "groups names 'strange', but no variable has this name",
        )


class TestTransformAndInspect:
    @pytest.fixture
    def model(self, gpower, data, tmp_path):
        gpower.succeed("fit", data, "-m", 2, "-k", 6, "--exclude", NAMES[0], "-o", tmp_path / "out")
        return tmp_path / "out" / "model.npz"

    def test_scores_into_a_file(self, gpower, data, model, tmp_path):
        result = gpower.succeed("transform", model, data, "-o", tmp_path / "scores.csv")
        assert result.stdout.startswith("Wrote ")
        rows = list(csv.reader(io.StringIO((tmp_path / "scores.csv").read_text())))
        assert rows[0] == ["sample", "component_1", "component_2"]
        found = np.array([row[1:] for row in rows[1:]], float)
        saved = GPower.load(model)
        np.testing.assert_allclose(found, (X - saved.mean_) @ saved.components_.T, atol=1e-10)
        assert (tmp_path / "scores.csv").read_text() == (tmp_path / "out" / "scores.csv").read_text()

    def test_variables_that_no_component_uses_may_be_absent(self, gpower, data, model, tmp_path):
        used = np.flatnonzero(GPower.load(model).components_.any(axis=0))
        few = write(tmp_path / "few.csv", [[NAMES[j] for j in used], *X[:, used].tolist()])
        found = gpower("transform", model, few)
        assert f"{150 - used.size} variable(s) of the model that no component uses are not in the table" in found.stderr
        scores, expected = (
            np.array([row[1:] for row in list(csv.reader(io.StringIO(each.stdout)))[1:]], float)
            for each in (found, gpower("transform", model, data))
        )
        np.testing.assert_allclose(scores, expected, atol=1e-10)

    def test_scores_are_printed(self, gpower, model, tmp_path):
        new = write(tmp_path / "new.csv", [NAMES, *X[:3].tolist()])
        result = gpower("transform", model, new)
        rows = list(csv.reader(io.StringIO(result.stdout)))
        assert [row[0] for row in rows] == ["sample", "s0", "s1", "s2"]

    def test_scores_are_refused(self, gpower, data, model, tmp_path):
        used = next(iter(GPower.load(model).loadings()[0]))
        other = write(tmp_path / "other.csv", [["other" if name == used else name for name in NAMES], *X.tolist()])
        assert_refused(
            gpower("transform", model, other),
            f"1 of the model's 150 variables are not in it, 1 of them used by its components: {used}",
        )
        idle = next(name for name in NAMES if not any(name in each for each in GPower.load(model).loadings()))
        few = [name for name in NAMES if name not in (used, idle)]
        assert_refused(
            gpower("plot", model, write(tmp_path / "few.csv", [few, *X[:, 2:].tolist()])),
            f"2 of the model's 150 variables are not in it, 1 of them used by its components: {used}, {idle};",
        )
        assert_refused(gpower("transform", data, data), "not a gpower model")
        GPower(1, cardinality=3, covariance="precomputed").fit(np.cov(X.T)).save(tmp_path / "cov.npz")
        covariance = write(tmp_path / "cov.csv", [NAMES, *np.cov(X.T).tolist()])
        result = gpower("transform", tmp_path / "cov.npz", covariance)
        assert_refused(result, "without means, and cannot compute scores", n_notes=1)

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

    def test_inspect_describes_other_files(self, gpower, data, tmp_path):
        sparsity_path(X, cardinalities=[2, 5]).save(tmp_path / "path.npz")
        assert "2 points of cardinality, 2 to 5" in gpower("inspect", tmp_path / "path.npz").stdout
        GPower(2, cardinality=3, checkpoint=tmp_path / "kept.npz").fit(X)
        assert "a Checkpoint, format 1" in gpower("inspect", tmp_path / "kept.npz").stdout
        assert_refused(gpower("inspect", data), "not a gpower model")


class TestCountingGroups:
    def test_a_number_chosen_by_cross_validation_counts_groups(self, gpower, data, tmp_path):
        file = write(tmp_path / "groups.csv", [["variable", "group"], *GROUPS.items()])
        result = gpower("fit", data, "-m", 2, "-k", "auto", "--grid", "1,2", "--groups", file, "--json")
        labels = np.array(list(GROUPS.values()))
        for z in np.array(json.loads(result.stdout)["components_"]):
            assert 1 <= len(set(labels[z != 0])) <= 2
        assert "the numbers of groups, " in result.stderr
        assert "were chosen by cross-validation in 5 folds" in result.stderr

    def test_a_path_shows_how_many_groups(self, gpower, data, tmp_path):
        file = write(tmp_path / "groups.csv", [["variable", "group"], *GROUPS.items()])
        result = gpower.succeed("path", data, "--groups", file)
        head = next(line for line in result.stdout.splitlines() if "variables" in line and "%" in line)
        assert head.split()[:2] == ["groups", "variables"]
