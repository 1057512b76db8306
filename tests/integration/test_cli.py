"""``gpower fit`` and ``gpower demo``: output, options, errors and progress."""

import gzip
import inspect
import io
import json
import logging
import os
import platform
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy
from scipy import io as scipy_io
from scipy import sparse
from sklearn.decomposition import PCA
from tests.command_line import assert_refused, write_csv
from tests.polling import wait_until

from gpower import GPower, GPowerCV, Solver, __version__
from gpower._utils.messages import format_param, use_param_formatter
from gpower.datasets import load_pitprops, load_planted_expression, read_table

typer = pytest.importorskip("typer")
rich = pytest.importorskip("rich")


from gpower.cli import console as console_module  # noqa: E402
from gpower.cli.commands import fit as fit_module  # noqa: E402
from gpower.cli.shared_flags import format_flag  # noqa: E402

EXPRESSION = load_planted_expression()
PITPROPS = load_pitprops()


def make_sink(console):
    return console_module.OutputSink(console, console)


@pytest.fixture
def expression(tmp_path):
    return write_csv(tmp_path / "expression.csv", EXPRESSION.X, EXPRESSION.feature_names, EXPRESSION.sample_names)


def read_csv(path):
    table = read_table(path)
    return table.X, table.feature_names, table.sample_names


class TestPrinted:
    def test_each_component_lists_its_variables_with_variance_and_total(self, gpower, pitprops):
        result = gpower("fit", pitprops, "--covariance", "-m", 2, "-k", 4)
        model = GPower(2, cardinality=4, covariance="precomputed").fit(PITPROPS.correlation)
        assert result.exit_code == 0
        assert result.stderr == ""
        printed = " ".join(result.stdout.split())
        for component in model.components_:
            for j in np.flatnonzero(component):
                assert f"{PITPROPS.feature_names[j]} {component[j]:+.3f}" in printed
        shares = 100 * model.explained_variance_ratio_
        assert f"{shares[0]:.3g} % of variance" in result.stdout
        assert f"All components explain {shares.sum():.3g} % of variance" in result.stdout

    def test_ordinary_components_are_the_yardstick(self, gpower, expression):
        share = PCA(3).fit(EXPRESSION.X).explained_variance_ratio_.sum()
        printed = gpower("fit", expression, "-k", "8,6,5").stdout
        assert f"Ordinary components, of all variables: {100 * share:.3g} %" in printed
        assert "Few variables have only a part of the variance; --certify proves how much is possible" in printed
        assert "An ordinary component, of all variables" in gpower("fit", expression, "-m", 1, "-k", 8).stdout

    def test_variables_are_sorted_by_size(self, gpower, expression):
        lines = gpower("fit", expression, "-m", 1, "-k", 8).stdout.splitlines()
        loadings = [abs(float(line.split()[1])) for line in lines if line.strip().startswith("GROWTH")]
        assert len(loadings) == 8
        assert loadings == sorted(loadings, reverse=True)

    def test_components_that_do_not_fit_side_by_side_go_below(self, gpower, expression, monkeypatch):
        monkeypatch.setenv("COLUMNS", "50")
        lines = gpower("fit", expression, "-k", "8,6,5").stdout.splitlines()
        assert max(len(line) for line in lines if "--certify" not in line) <= 50
        assert [line for line in lines if "Component 3" in line and "Component 1" not in line]

    def test_top_shortens_the_list_with_a_note(self, gpower, expression):
        result = gpower("fit", expression, "-m", 1, "-k", 8, "--top", 3)
        assert result.stdout.count("GROWTH") == 3
        assert "and 5 more" in result.stdout

    def test_small_shares_do_not_round_to_nothing(self, gpower, tmp_path):
        X = np.random.RandomState(0).standard_normal((10, 2)) * [100, 1]
        result = gpower("fit", write_csv(tmp_path / "t.csv", X), "-k", 1)
        model = GPower(2, cardinality=1).fit(X)
        assert model.explained_variance_ratio_[1] < 5e-4
        assert f"{100 * model.explained_variance_ratio_[1]:.3g} % of variance" in result.stdout

    def test_unnamed_variables_are_numbered(self, gpower, tmp_path):
        X = np.random.RandomState(0).standard_normal((10, 3)) * [1, 5, 1]
        assert "x1" in gpower("fit", write_csv(tmp_path / "t.csv", X), "-m", 1, "-k", 1).stdout

    def test_names_are_as_long_as_the_terminal_is_wide(self, gpower, tmp_path, monkeypatch):
        X = np.random.RandomState(0).standard_normal((10, 2)) * [3, 1]
        path = write_csv(tmp_path / "t.csv", X, ["n" * 70, "b"])
        assert "n" * 70 + " +1.000" in gpower("fit", path, "-k", 1).stdout
        monkeypatch.setenv("COLUMNS", "60")
        lines = gpower("fit", path, "-k", 1).stdout.splitlines()
        assert max(len(line) for line in lines if "--certify" not in line) <= 60
        assert any("n" * 48 + "… +1.000" in line for line in lines)

    def test_warnings_are_notes_on_stderr(self, gpower, expression):
        result = gpower.succeed("fit", expression, "--gamma", 0.1, "--init", "largest_norm", "--max-iter", 1)
        assert result.stderr.startswith("note: ")
        assert "raise --max-iter" in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_verbose_logs_to_stderr_while_it_runs(self, gpower, expression):
        logger = logging.getLogger("gpower")
        before = logger.level, list(logger.handlers)
        for numbers, named in (("8,6,5", "3 components of 8-6-5 variables"), ("8,8", "2 components of 8 variables")):
            assert named in gpower("fit", expression, "-k", numbers, "-v").stderr
        assert (logger.level, list(logger.handlers)) == before


class TestOptions:
    def test_every_estimator_option_has_its_flag(self):
        options = set(inspect.signature(fit_module.fit).parameters)
        assert set(inspect.signature(GPower).parameters) - {"warm_start"} <= options
        assert set(inspect.signature(Solver).parameters) - {"callback"} <= options

    def test_defaults_are_the_estimators(self, gpower, expression, tmp_path):
        gpower("fit", expression, "-o", tmp_path)
        assert GPower.load(tmp_path / "model.npz").get_params() == GPower().get_params()

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            (["-m", "3", "-k", "4"], {"n_components": 3, "cardinality": 4}),
            (["-k", "8,6,5"], {"n_components": 3, "cardinality": [8, 6, 5]}),
            (["--gamma", "0.1,0.2"], {"n_components": 2, "gamma": [0.1, 0.2]}),
            (["--gamma", "0.1", "--penalty", "l1"], {"gamma": 0.1, "penalty": "l1"}),
            (["--method", "block", "--mu", "1,0.5"], {"method": "block", "mu": [1, 0.5]}),
            (["--method", "block", "--regularization", "0.5"], {"solver": Solver(regularization=0.5)}),
            (["--l1-bound", "4"], {"l1_bound": 4.0}),
            (["--variance", "l1", "-k", "5"], {"variance": "l1"}),
            (["--positive", "-k", "5"], {"positive": True}),
            (["--no-center", "--scale"], {"center": False, "scale": True}),
            (["--n-init", "3", "--random-state", "7", "-k", "5"], {"n_init": 3, "random_state": 7}),
            (["--n-init", "auto", "--init", "largest_norm"], {"solver": Solver(init="largest_norm")}),
            (["--algorithm", "full", "--no-acceleration"], {"solver": Solver("full", acceleration=False)}),
            (["--solver", "paper", "--gamma", "0.1"], {"solver": "paper", "tol": 1e-6}),
            (["--refit", "none", "--no-local-search"], {"solver": Solver(refit=None, local_search=False)}),
            (["--refit", "norms"], {"solver": Solver(refit="norms")}),
            (["--deflation", "schur"], {"deflation": "schur"}),
            (["--tol", "1e-3", "--max-iter", "50"], {"tol": 1e-3, "max_iter": 50}),
            (["-vv"], {"verbose": 2}),
        ],
    )
    def test_flags_reach_the_estimator(self, gpower, expression, tmp_path, flags, expected):
        gpower.succeed("fit", expression, *flags, "-o", tmp_path)
        params = GPower.load(tmp_path / "model.npz").get_params()
        assert {name: params[name] for name in expected} == expected

    def test_the_setting_of_the_paper_takes_no_other_options(self, gpower, expression):
        for flag, *value in (("--refit", "none"), ("--acceleration",), ("--no-acceleration",)):  # one is the default
            result = gpower("fit", expression, "--solver", "paper", flag, *value)
            assert_refused(result, f"--solver paper does not go together with {flag}")

    def test_covariance(self, gpower, pitprops, tmp_path):
        result = gpower("fit", pitprops, "--covariance", "-m", 1, "-k", 5, "-o", tmp_path)
        assert GPower.load(tmp_path / "model.npz").explained_variance_[0] == pytest.approx(3.406155, abs=1e-6)
        assert not (tmp_path / "scores.csv").exists()
        assert "loadings.csv, loadings_list.csv, model.npz" in result.stdout


class TestChosenNumbers:
    def test_auto_chooses_by_cross_validation_with_a_note(self, gpower, tmp_path):
        path = write_csv(tmp_path / "few.csv", EXPRESSION.X[:, :20])
        result = gpower.succeed("fit", path, "-m", 2, "-k", "auto", "--folds", 3, "--n-init", 2, "-o", tmp_path)
        model = GPower.load(tmp_path / "model.npz")
        chosen = GPowerCV(2, cv=3, n_init=2).fit(EXPRESSION.X[:, :20])
        assert model.cardinality == chosen.best_params_["cardinality"]
        np.testing.assert_allclose(model.components_, chosen.components_, atol=1e-10)
        choice = chosen.cardinality_choice_
        assert f"note: {choice}." in result.stderr
        for number, (first, last) in zip(chosen.cardinality_, chosen.cardinality_range_, strict=True):
            others = f"{first} to {last} would do as well" if first < last else "of those tried; "
            assert f"{number} ({others}" in choice
        assert "were chosen by cross-validation in 3 folds: they have the largest variance explained" in choice
        assert model.cardinality_choice_ == choice
        for shown in (gpower.succeed("inspect", tmp_path / "model.npz").stdout, str(model), str(chosen)):
            assert choice[1:] in shown
        assert not hasattr(model.set_params(cardinality=3).fit(EXPRESSION.X[:, :20]), "cardinality_choice_")

    def test_the_rule_of_one_standard_error_has_its_own_sentence(self, gpower, tmp_path):
        path = write_csv(tmp_path / "few.csv", EXPRESSION.X[:, :12])
        note = gpower.succeed("fit", path, "-m", 1, "-k", "auto", "--rule", "one-se", "--grid", "2,4,8").stderr
        assert "in 5 folds: it is the fewest within one standard error of the largest variance explained" in note

    def test_a_number_that_is_no_list_to_read(self, gpower, tmp_path):
        rng = np.random.default_rng(0)
        path = write_csv(tmp_path / "alike.csv", rng.standard_normal((30, 240)) + rng.standard_normal((30, 1)))
        many, few = (
            gpower("fit", path, "-m", 1, "-k", "auto", "--grid", grid, "--folds", 3, "-o", tmp_path).stderr
            for grid in ("20,120", "20,40")
        )
        assert "120 variables are too many to read as a list" in many
        assert "such as -k 25" in many
        assert "too many to read" not in few

    def test_the_criterion_the_grid_and_gaps(self, gpower, tmp_path):
        X = EXPRESSION.X[:, :20].copy()
        X[3, 4] = X[10, 0] = np.nan
        path = write_csv(tmp_path / "few.csv", X)
        flags = ["-k", "auto", "--criterion", "prediction", "--grid", "2,4,8", "--folds", 3, "--missing", "impute"]
        gpower.succeed("fit", path, "-m", 1, *flags, "-o", tmp_path)
        options = {"cardinalities": [2, 4, 8], "cv": 3, "criterion": "prediction", "missing": "impute"}
        chosen = GPowerCV(1, **options).fit(X).best_params_["cardinality"]
        assert GPower.load(tmp_path / "model.npz").cardinality == chosen

    def test_the_rule_and_a_block(self, gpower, tmp_path):
        few = EXPRESSION.X[:, :6]
        path = write_csv(tmp_path / "few.csv", few)
        flags = ["-m", 2, "-k", "auto", "--rule", "one-se", "--method", "block"]
        gpower.succeed("fit", path, *flags, "-o", tmp_path)
        chosen = GPowerCV(2, rule="one-se", method="block", search="joint").fit(few)
        assert GPower.load(tmp_path / "model.npz").cardinality == [chosen.best_params_["cardinality"]] * 2

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--gamma", "0.1"], "-k auto does not go together with --gamma 0.1; give the number of variables instead"),
            (["--covariance"], "-k auto does not go together with --covariance"),
            (["-m", "auto"], "-m auto and -k auto cannot be used together"),
            (["--rule", "most"], "--rule most is not known"),
            (["--folds", "100"], "cv=100: between 2 and n_samples=60 folds"),
        ],
    )
    def test_options_that_exclude_each_other(self, gpower, expression, flags, message):
        assert_refused(gpower("fit", expression, "-k", "auto", *flags), message)


class TestMissing:
    def test_empty_cells_are_filled_where_that_is_asked_for(self, gpower, tmp_path):
        X = EXPRESSION.X[:, :20].copy()
        X[[5, 9], [3, 7]] = np.nan
        rows = [["" if np.isnan(x) else x for x in row] for row in X.tolist()]
        path = tmp_path / "holes.csv"
        path.write_text("\n".join(",".join(map(str, row)) for row in [EXPRESSION.feature_names[:20], *rows]))
        assert_refused(gpower("fit", path, "-k", 3))
        gpower.succeed("fit", path, "-k", 3, "--missing", "impute", "-o", tmp_path)
        model = GPower(2, cardinality=3, missing="impute").fit(X)
        np.testing.assert_allclose(GPower.load(tmp_path / "model.npz").components_, model.components_, atol=1e-10)
        np.testing.assert_allclose(read_csv(tmp_path / "scores.csv")[0], model.transform(X), atol=1e-10)


FEW, FEW_NAMES = EXPRESSION.X[:, :40], EXPRESSION.feature_names[:40]


def write_named(path, at, names, values):
    """Write the table with columns of other values at some position."""
    columns = [*FEW_NAMES[:at], *names, *FEW_NAMES[at:]]
    return write_csv(path, np.insert(FEW, [at] * len(names), values, axis=1), columns)


def write_parquet(path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(FEW, columns=FEW_NAMES).to_parquet(path)


@pytest.mark.parametrize(
    ("name", "write", "flags"),
    [
        ("t.csv", lambda path: write_csv(path, FEW, FEW_NAMES), []),
        ("t.txt", lambda path: write_csv(path, FEW, FEW_NAMES), []),
        ("t.csv", lambda path: write_csv(path, FEW.T, EXPRESSION.sample_names, FEW_NAMES), ["--transpose"]),
        ("t.csv", lambda path: write_named(path, 2, ["id"], np.arange(60)[:, None]), ["--index-col", "id"]),
        ("t.csv", lambda path: write_named(path, 2, ["id"], np.arange(60)[:, None]), ["--index-col", "2"]),
        ("t.csv", lambda path: write_named(path, 2, ["batch", "my age"], 7.0), ["--drop", "batch, my age"]),
        ("t.npy", lambda path: np.save(path, FEW), []),
        ("t.npz", lambda path: np.savez(path, first=EXPRESSION.X, second=FEW), ["--key", "second"]),
        ("t.npz", lambda path: sparse.save_npz(path, sparse.csr_array(FEW)), []),
        ("t.mtx", lambda path: scipy_io.mmwrite(path, sparse.coo_array(FEW)), []),
        ("t.parquet", write_parquet, []),
    ],
)
def test_the_same_numbers_give_the_same_components_in_every_format(gpower, tmp_path, name, write, flags):
    write(tmp_path / name)
    found = gpower.read_json("fit", tmp_path / name, "-m", 2, "-k", 3, *flags)
    np.testing.assert_allclose(found["components_"], GPower(2, cardinality=3).fit(FEW).components_, atol=1e-8)
    if name.endswith(("csv", "txt", "parquet")):
        assert found["feature_names_in_"] == list(FEW_NAMES)


class TestSeriesMatrix:
    """A GEO series and the table of its platform are read as downloaded."""

    GENES = sorted(EXPRESSION.feature_names[:20])
    X = EXPRESSION.X[:, [EXPRESSION.feature_names.index(gene) for gene in GENES]]

    @pytest.fixture
    def series(self, tmp_path):
        """Write two probes per gene, equally far above and below it, and one of two genes; a value is missing."""
        probes = {f"{j}_{side}_at": self.X[:, j] + sign for j in range(20) for side, sign in (("a", 0.5), ("b", -0.5))}
        rows = [[probe, *values.tolist()] for probe, values in (probes | {"both_at": 9 * self.X[:, 0]}).items()]
        rows[38][1] = "null"
        table = [["ID_REF", *(f"GSM{i}" for i in range(len(self.X)))], *rows]
        lines = ['!Series_title\t"Made up"', "!series_matrix_table_begin", *("\t".join(map(str, row)) for row in table)]
        path = tmp_path / "GSE1_series_matrix.txt.gz"
        path.write_bytes(gzip.compress("\n".join([*lines, "!series_matrix_table_end", ""]).encode()))
        return path

    @pytest.fixture
    def platform(self, tmp_path):
        genes = {f"{j}_{side}_at": gene for j, gene in enumerate(self.GENES) for side in "ab"} | {"both_at": "A /// B"}
        lines = ["#ID = probe", "ID\tGene Symbol", *("\t".join(pair) for pair in genes.items())]
        path = tmp_path / "GPL.txt"
        path.write_text("\n".join(lines))
        return path

    def test_the_components_are_of_genes(self, gpower, series, platform, tmp_path):
        result = gpower.succeed("fit", series, "-m", 2, "-k", 5, "--platform", platform, "-o", tmp_path)
        message = "40 of 41 probes have one gene each and make up 20 genes; the other probes are left out"
        assert result.stderr == f"note: {message}.\n"
        assert "GSE1_series_matrix.txt.gz: 60 samples × 20 variables" in result.stdout
        genes = self.X.copy()
        genes[0, 19] -= 0.5  # only the lower probe has a value
        model = GPower(2, cardinality=5).fit(genes)
        loadings, _, names = read_csv(tmp_path / "loadings.csv")
        np.testing.assert_allclose(loadings, model.components_.T, atol=1e-10)
        assert names == tuple(self.GENES)
        scores, _, samples = read_csv(tmp_path / "scores.csv")
        np.testing.assert_allclose(scores, model.transform(genes), atol=1e-10)
        assert samples == tuple(f"GSM{i}" for i in range(60))

    def test_without_a_platform_they_are_of_probes(self, gpower, series):
        refused = gpower("fit", series, "-m", 2, "-k", 5)
        assert refused.exit_code == 1
        assert "line 42, column 'GSM0'" in refused.stderr
        printed = gpower("fit", series, "-m", 2, "-k", 5, "--missing", "impute", "--json").stdout
        assert len(json.loads(printed)["feature_names_in_"]) == 41


class TestOutput:
    @pytest.fixture
    def model(self):
        return GPower(3, cardinality=[8, 6, 5]).fit(EXPRESSION.X)

    def test_files_hold_the_fitted_model(self, gpower, expression, tmp_path, model):
        folder = tmp_path / "new" / "results"
        result = gpower("fit", expression, "-k", "8,6,5", "-o", folder)
        assert (
            f"Wrote loadings.csv, loadings_list.csv, scores.csv, model.npz into {folder}." in result.stdout.splitlines()
        )

        loadings, columns, variables = read_csv(folder / "loadings.csv")
        np.testing.assert_array_equal(loadings, model.components_.T)
        assert columns == ("component_1", "component_2", "component_3")
        assert variables == EXPRESSION.feature_names

        scores, columns, samples = read_csv(folder / "scores.csv")
        np.testing.assert_allclose(scores, model.transform(EXPRESSION.X), rtol=1e-12)
        assert columns == ("component_1", "component_2", "component_3")
        assert samples == EXPRESSION.sample_names

        again = GPower.load(folder / "model.npz")
        np.testing.assert_array_equal(again.components_, model.components_)
        np.testing.assert_array_equal(again.explained_variance_, model.explained_variance_)

    def test_the_saved_model_knows_the_names(self, gpower, expression, tmp_path):
        pytest.importorskip("pandas")
        gpower("fit", expression, "-k", 5, "-o", tmp_path)
        assert tuple(GPower.load(tmp_path / "model.npz").feature_names_in_) == EXPRESSION.feature_names

    def test_unnamed_samples_are_numbered(self, gpower, tmp_path):
        np.save(tmp_path / "t.npy", EXPRESSION.X)
        gpower("fit", tmp_path / "t.npy", "-k", 5, "-o", tmp_path)
        assert read_csv(tmp_path / "scores.csv")[2][:2] == ("s0", "s1")
        assert read_csv(tmp_path / "loadings.csv")[2][:2] == ("x0", "x1")

    def test_json_has_the_fitted_attributes(self, gpower, expression, model):
        result = gpower("fit", expression, "-k", "8,6,5", "--json")
        assert result.stderr == ""
        found = json.loads(result.stdout)
        fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        assert fitted <= set(found)
        for name in fitted - {"gamma_"}:
            np.testing.assert_array_equal(found[name], getattr(model, name), err_msg=name)
        assert found["gamma_"] == [None, None, None]  # NaN is not JSON

    def test_json_lists_loadings_by_name(self, gpower, expression, model):
        first = gpower.read_json("fit", expression, "-k", "8,6,5")["loadings"][0]
        by_name = {entry["name"]: entry["loading"] for entry in first}
        at = [EXPRESSION.feature_names.index(name) for name in by_name]
        np.testing.assert_array_equal(list(by_name.values()), model.components_[0, at])
        assert set(by_name) == set(EXPRESSION.modules["GROWTH"])

    def test_json_is_alone_on_stdout(self, gpower, expression, tmp_path):
        result = gpower(
            "fit", expression, "--gamma", 0.1, "--init", "largest_norm", "--max-iter", 1, "--json", "-o", tmp_path
        )
        notes = json.loads(result.stdout)["notes"]
        assert len(notes) == 1
        assert result.stderr.splitlines() == [
            f"note: {notes[0]}",
            f"Wrote loadings.csv, loadings_list.csv, scores.csv, model.npz into {tmp_path}.",
        ]

    @pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.pdf", b"%PDF"), ("p.SVG", b"<?xml")])
    def test_picture(self, gpower, expression, tmp_path, name, magic):
        pytest.importorskip("matplotlib")
        picture = tmp_path / "new" / name
        result = gpower.succeed("fit", expression, "-k", "8,6", "--plot", picture)
        assert result.stdout.splitlines()[-1] == f"Picture: {picture}"
        assert picture.read_bytes().startswith(magic)

    def test_hints_about_the_table_are_notes(self, gpower, tmp_path):
        X = np.insert(EXPRESSION.X, 0, 100 + np.arange(len(EXPRESSION.X)), axis=1)
        path = write_csv(tmp_path / "t.csv", X, ["entrez", *EXPRESSION.feature_names])
        result = gpower("fit", path, "-k", 5, "--json")
        note = "column 'entrez' looks like row names; if it is, add --index-col entrez."
        assert result.stderr.startswith(f"note: {note}\n")
        found = json.loads(result.stdout)
        assert found["notes"][0] == note
        assert result.stderr == "".join(f"note: {each}\n" for each in found["notes"])
        assert found["feature_names_in_"][0] == "entrez"
        assert gpower("fit", path, "-k", 5, "--index-col", "entrez").stderr == ""

    def test_negative_eigenvalues_are_a_note_or_an_error(self, gpower, tmp_path):
        R, names = np.corrcoef(np.random.default_rng(0).standard_normal((5, 12)).T), [f"v{j}" for j in range(12)]
        path = write_csv(tmp_path / "r.csv", np.round(R, 6), names)
        result = gpower("fit", path, "-k", 3, "--covariance", "--json")
        (note,) = json.loads(result.stdout)["notes"]
        assert "negative eigenvalue(s)" in note
        assert result.stderr == f"note: {note}\n"
        refused = gpower("fit", write_csv(path, np.round(R, 3), names), "-k", 3, "--covariance")
        assert refused.exit_code == 1
        assert "not positive semidefinite" in refused.stderr

    def test_columns_that_do_not_vary_are_a_note(self, gpower, tmp_path):
        path = write_csv(
            tmp_path / "t.csv", np.insert(EXPRESSION.X, 0, 1.0, axis=1), ["flat", *EXPRESSION.feature_names]
        )
        note = "note: 1 column(s) do not vary and get no loading: 'flat'.\n"
        assert gpower("fit", path, "-k", 5).stderr == note
        assert gpower("path", path, "-k", 5).stderr == note

    def test_correlations_without_the_option(self, gpower, pitprops):
        note = "note: the table looks like a correlation matrix; if it is, add --covariance.\n"
        assert gpower("fit", pitprops, "-k", 4).stderr == note

    def test_years_without_the_option(self, gpower, tmp_path):
        path = write_csv(tmp_path / "t.csv", np.vstack([np.arange(2001, 2011), EXPRESSION.X[:, :10]]))
        assert "looks like a header; if it is, add --header." in gpower("fit", path, "-k", 4).stderr
        assert gpower("fit", path, "-k", 4, "--header").stderr == ""


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("t.csv", b"a,b\n1,2\n3,4,5\n", "line 3 has 3 cells where 2 are expected"),
            ("t.csv", b"id,what,a\ns,pump,1\nt,ring,2\n", "leave columns of text out with --drop what."),
            ("t.csv", b"a,what\n1,pump\n2,ring\n", "if these are names, say so with --index-col what;"),
            ("t.csv", b"a,b\n1,2\n", "sample"),
            ("t.ods", b"PK", "the suffix '.ods' is not one of"),
        ],
    )
    def test_malformed_files(self, gpower, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        assert_refused(gpower("fit", tmp_path / name, "-m", 1, "-k", 1), message)

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["-m", 0], "-m 0"),
            (["-k", 0], "-k 0"),
            (["-k", 999], "-k 999"),
            (["-m", 3, "-k", "5,5"], "-k has 2 entries, but -m 3"),
            (["-k", 5, "--gamma", 0.1], "-k and --gamma"),
            (["--gamma", 1.5], "--gamma 1.5"),
            (["--penalty", "l7"], "--penalty l7 is not known"),
            (["--covariance"], "square matrix"),
            (["--index-col", "nobody"], "--index-col nobody is not a heading; the file has the columns name, "),
            (["--drop", "a,nobody"], "--drop a is not a heading"),
            (["--plot", "loadings.bmp"], "loadings.bmp: a picture ends in .png, .pdf or .svg"),
            (["--key", "X"], "--key X has no meaning for a .csv file"),
        ],
    )
    def test_bad_parameters(self, gpower, expression, flags, message):
        assert_refused(gpower("fit", expression, *flags), message)

    def test_a_picture_without_matplotlib(self, gpower, expression, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        assert_refused(gpower("fit", expression, "--plot", tmp_path / "p.png"), "pip install matplotlib")

    def test_output_that_is_a_file(self, gpower, expression):
        assert_refused(gpower("fit", expression, "-o", expression), "this is a file; the results go into a folder")

    @pytest.mark.parametrize(
        "args",
        [
            ["fit"],
            ["fit", "t.csv", "-k", "many"],
            ["fit", "t.csv", "--n-init", "few"],
            ["fit", "t.csv", "--nonsense"],
            ["no"],
        ],
    )
    def test_wrong_usage_is_code_two(self, gpower, args):
        result = gpower(*args)
        assert result.exit_code == 2
        assert "Error" in result.stderr

    def test_interrupted(self, gpower, expression, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(GPower, "fit", interrupt)
        result = gpower("fit", expression)
        assert result.exit_code == 130
        assert result.stderr == "Interrupted.\n"
        assert result.stdout == ""


class TestMessages:
    @pytest.mark.parametrize(
        ("parameter", "typed"),
        [
            (("cardinality", [6, 99]), "-k 6,99"),
            (("n_components", 4), "-m 4"),
            (("memory_limit", "2XB"), "--memory 2XB"),
            (("memory_limit",), "--memory"),
            (("tol", 1e-5), "--tol 1e-05"),
            (("covariance", "precomputed"), "--covariance"),
            (("scale", True), "--scale"),
            (("center", False), "--no-center"),
            (("suffix", "pdf"), "--suffix pdf"),
        ],
    )
    def test_parameters_are_flags(self, parameter, typed):
        assert format_flag(*parameter) == typed
        with use_param_formatter(format_flag):
            assert format_param(*parameter) == typed
        assert not format_param(*parameter).startswith("-")

    def test_only_within_a_command(self, gpower, expression):
        assert "-k 0: a component uses" in gpower("fit", expression, "-k", "0").stderr
        with pytest.raises(ValueError, match=r"^cardinality=0: a component uses"):
            GPower(2, cardinality=0).fit(np.eye(3))


class TestDevice:
    def test_without_a_gpu_the_error_is_one_line(self, gpower, expression):
        result = gpower("fit", expression, "-k", "5", "--device", "cuda")
        if result.exit_code == 0:
            pytest.skip("there is a GPU")
        assert_refused(result, "CuPy")

    def test_another_name_is_refused(self, gpower, expression):
        assert_refused(gpower("fit", expression, "-k", "5", "--device", "tpu"), "use cpu or cuda")


class TestCertify:
    def test_certify_prints_the_share_of_the_upper_bound(self, gpower, pitprops):
        printed = gpower("fit", pitprops, "--covariance", "-m", "2", "-k", "5", "--certify").stdout
        assert printed.count("≥ 99.99 % of the best possible") == 2
        found = gpower.read_json("fit", pitprops, "--covariance", "-k", "5", "--certify")
        assert found["upper_bound_"][0] == pytest.approx(3.40615, rel=2e-4)
        assert "upper_bound_" not in gpower.read_json("fit", pitprops, "--covariance", "-k", "5")


class TestProgress:
    @pytest.fixture
    def terminal(self, monkeypatch):
        monkeypatch.setattr(console_module, "_PROGRESS_DELAY_SECONDS", 0.01)
        return rich.console.Console(file=io.StringIO(), force_terminal=True, width=100)

    def shows(self, terminal, words):
        """Return whether words appear on the terminal that another thread writes to."""
        return wait_until(lambda: words in terminal.file.getvalue())

    def test_shows_steps_once_the_work_is_long(self, terminal):
        with make_sink(terminal).show_progress("fitting 3 × 4") as tell:
            for _ in range(2):
                tell(type("State", (), {"value": 1.25, "feasible_set": None}))
            assert self.shows(terminal, "fitting 3 × 4, step 2, objective 1.25")

    def test_shows_passes_gigabytes_and_the_time_left_of_a_store(self, terminal):
        state = type("State", (), {"value": 2.0, "feasible_set": type("Set", (), {"passes": 3.5})})
        with make_sink(terminal).show_progress("fitting", matrix_bytes=2e9) as tell:
            tell(state)
            assert self.shows(terminal, "objective 2, 3.5 passes, 7 GB read, about 0:")
        assert console_module._format_passes(state, 2e9, 70.0).endswith("about 0:03:50 left")

    def test_shows_how_much_of_known_work_is_done(self, terminal):
        with make_sink(terminal).show_progress_bar("walking") as tell:
            tell(3, 7)
            assert self.shows(terminal, "walking")
            assert self.shows(terminal, "3/7")

    def test_short_work_shows_nothing(self, terminal, monkeypatch):
        monkeypatch.setattr(
            console_module, "_PROGRESS_DELAY_SECONDS", 600.0
        )  # shorter than the delay, even on a busy machine
        with make_sink(terminal).show_progress("fitting") as tell:
            tell(type("State", (), {"value": 1.25, "feasible_set": None}))
        assert terminal.file.getvalue() == ""

    def test_progress_is_shown_on_a_terminal_only(self, monkeypatch):
        monkeypatch.setattr(console_module, "_PROGRESS_DELAY_SECONDS", 0.0)
        console = rich.console.Console(file=io.StringIO(), force_terminal=False)
        with make_sink(console).show_progress("fitting") as tell:
            time.sleep(0.05)
        assert tell is None
        assert console.file.getvalue() == ""

    def test_counting_steps_never_stops_an_ascent(self, terminal):
        with make_sink(terminal).show_progress("fitting") as tell:
            watched = GPower(2, gamma=0.1, solver=Solver(callback=tell)).fit(EXPRESSION.X)
        np.testing.assert_array_equal(watched.components_, GPower(2, gamma=0.1).fit(EXPRESSION.X).components_)


class TestDemo:
    def test_prints_both_tables_and_draws_both_pictures(self, gpower, tmp_path):
        pytest.importorskip("matplotlib")
        result = gpower.succeed("demo", "--output", tmp_path / "pictures")
        assert result.stderr == ""
        for name in ("pitprops.png", "expression.png"):
            assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")
            assert f"Picture: {tmp_path / 'pictures' / name}" in result.stdout.splitlines()
        assert "Component 6" in result.stdout
        assert "Component 1 found 8 of the 8 GROWTH genes." in result.stdout
        assert "Component 3 found 5 of the 5 STRESS genes." in result.stdout

    def test_writes_a_report_and_prints_how_to_open_it(self, gpower, tmp_path):
        pytest.importorskip("bokeh")
        result = gpower("demo", "--output", tmp_path)
        file = tmp_path / "report.html"
        assert f"Report: {file}, a page to explore; open it in any browser: {file.as_uri()}" in result.stdout
        assert "GROWTH3" in file.read_text(encoding="utf-8")

    def test_runs_without_matplotlib(self, gpower, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        result = gpower.succeed("demo", "--output", tmp_path)
        assert "STRESS1" in result.stdout
        assert "Picture" not in result.stdout
        assert result.stderr.splitlines() == [
            "note: no picture. Pictures need matplotlib: pip install matplotlib.",
            "note: no report. A report needs bokeh, jinja2 and matplotlib: "
            'pip install "bokeh>=3.6,<4" jinja2 matplotlib.',
        ]


class TestProcess:
    """Real processes, started as from a shell."""

    def run(self, *args, **env):
        command = [sys.executable, *args]
        env = os.environ | env
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)

    def test_fit(self, expression):
        done = self.run("-m", "gpower", "fit", str(expression), "-m", "1", "-k", "8", "--json")
        assert done.returncode == 0
        assert done.stderr == ""
        assert json.loads(done.stdout)["cardinality_"] == [8]

    def test_a_terminal_without_the_letters_of_a_name(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("α,b\n1,2\n5,4\n9,2\n", encoding="utf-8")
        done = self.run("-m", "gpower", "fit", str(path), "-m", "1", "-k", "1", PYTHONIOENCODING="ascii")
        assert done.returncode == 0
        assert "? " in done.stdout
        assert done.stderr == ""

    def test_error_without_traceback(self, tmp_path):
        done = self.run("-m", "gpower", "fit", str(tmp_path / "nothing.csv"))
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr == f"error: {tmp_path / 'nothing.csv'}: there is no such file.\n"

    def test_the_missing_extra_is_named(self):
        block = "import sys; sys.modules['typer'] = None; from gpower.__main__ import main; main()"
        done = self.run("-c", block)
        assert done.returncode == 1
        assert done.stderr.splitlines() == ["error: the command line needs typer and rich: pip install rich typer"]

    def test_help_loads_nothing_heavy_of_its_own(self):
        code = (
            "import sys\nfrom gpower.__main__ import main\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "print(sorted({'matplotlib', 'gpower.plotting', 'gpower.datasets'} & set(sys.modules)))"
        )
        assert self.run("-c", code).stdout.splitlines()[-1] == "[]"


def test_without_arguments_it_helps(gpower):
    result = gpower.succeed()
    assert "Usage: gpower" in result.stdout.replace("root", "gpower")
    commands = [line.split()[1] for line in result.stdout.partition("Commands")[2].splitlines() if "gpower " in line]
    assert commands[:4] == ["fit", "components", "path", "report"]  # in the order of use


def test_help_shows_the_default_sparsity(gpower):
    text = " ".join(gpower("fit", "--help").stdout.replace("│", " ").split())
    assert "without --gamma or another level: 10, or a third of few variables" in text
    assert "0.1 with --penalty l1, which is then the default" in text


def test_version(gpower):
    first, second = gpower("--version").stdout.splitlines()
    assert first == f"gpower {__version__}"
    assert f"Python {platform.python_version()}, numpy {np.__version__}" in second
    assert f"scipy {scipy.__version__}" in second
