"""``gpower fit`` and ``gpower demo``: output, options, errors and progress."""

import io
import json
import logging
import platform
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy
from rich.console import Console
from sklearn.decomposition import PCA
from tests.command_line import assert_refused, write_csv

from gpower import GPower, GPowerCV, Solver, __version__
from gpower.cli import console as console_module
from gpower.cli.console import OutputSink
from gpower.datasets import load_pitprops, load_planted_expression, read_table

EXPRESSION = load_planted_expression()
PITPROPS = load_pitprops()


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

    def test_ordinary_components_are_the_yardstick(self, gpower, data):
        share = PCA(3).fit(EXPRESSION.X).explained_variance_ratio_.sum()
        printed = gpower("fit", data, "-k", "8,6,5").stdout
        assert f"Ordinary components, of all variables: {100 * share:.3g} %" in printed
        assert "Few variables have only a part of the variance; --certify proves how much is possible" in printed
        assert "An ordinary component, of all variables" in gpower("fit", data, "-m", 1, "-k", 8).stdout
        assert "More variables would add hardly any variance" in gpower("fit", data, "-k", 149).stdout

    def test_variables_are_sorted_by_size_and_top_shortens_their_list(self, gpower, data):
        command = ("fit", data, "-m", 1, "-k", 8)
        lines = gpower(*command).stdout.splitlines()
        loadings = [abs(float(line.split()[1])) for line in lines if line.strip().startswith("GROWTH")]
        assert len(loadings) == 8
        assert loadings == sorted(loadings, reverse=True)
        few = gpower(*command, "--top", 3).stdout
        assert few.count("GROWTH") == 3
        assert "and 5 more" in few

    def test_components_that_do_not_fit_side_by_side_go_below(self, gpower, data, monkeypatch):
        monkeypatch.setenv("COLUMNS", "50")
        lines = gpower("fit", data, "-k", "8,6,5").stdout.splitlines()
        assert max(len(line) for line in lines if "--certify" not in line) <= 50
        assert [line for line in lines if "Component 3" in line and "Component 1" not in line]

    def test_small_shares_do_not_round_to_nothing_and_variables_without_names_are_numbered(self, gpower, tmp_path):
        X = np.random.RandomState(0).standard_normal((10, 2)) * [100, 1]
        printed = gpower("fit", write_csv(tmp_path / "t.csv", X), "-k", 1).stdout
        model = GPower(2, cardinality=1).fit(X)
        assert model.explained_variance_ratio_[1] < 5e-4
        assert f"{100 * model.explained_variance_ratio_[1]:.3g} % of variance" in printed
        assert "x1" in printed

    def test_names_are_as_long_as_the_terminal_is_wide(self, gpower, tmp_path, monkeypatch):
        X = np.random.RandomState(0).standard_normal((10, 2)) * [3, 1]
        path = write_csv(tmp_path / "t.csv", X, ["n" * 70, "b"])
        assert "n" * 70 + " +1.000" in gpower("fit", path, "-k", 1).stdout
        monkeypatch.setenv("COLUMNS", "60")
        lines = gpower("fit", path, "-k", 1).stdout.splitlines()
        assert max(len(line) for line in lines if "--certify" not in line) <= 60
        assert any("n" * 48 + "… +1.000" in line for line in lines)

    def test_verbose_logs_to_stderr_while_it_runs(self, gpower, data):
        logger = logging.getLogger("gpower")
        before = logger.level, list(logger.handlers)
        for numbers, named in (("8,6,5", "GPower: 3 components, "), ("8,8", "GPower: 2 components, ")):
            assert named in gpower("fit", data, "-k", numbers, "-v").stderr
        assert (logger.level, list(logger.handlers)) == before


class TestOptions:
    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("", GPower().get_params()),
            (
                "-m 3 -k 4 --positive --no-center --scale --n-init 3 --random-state 7 --tol 1e-3 --max-iter 50 -vv",
                {"n_components": 3, "cardinality": 4, "positive": True, "center": False, "scale": True, "n_init": 3}
                | {"random_state": 7, "tol": 1e-3, "max_iter": 50, "verbose": 2},
            ),
            ("-k 8,6,5", {"n_components": 3, "cardinality": [8, 6, 5]}),
            ("--gamma 0.1,0.2 --penalty l1", {"n_components": 2, "gamma": [0.1, 0.2], "penalty": "l1"}),
            (
                "--method block --mu 1,0.5 --regularization 0.5 --refit none",
                {"method": "block", "mu": [1, 0.5], "solver": Solver(regularization=0.5, refit=None)},
            ),
            (
                "--l1-bound 4 --n-init auto --init largest_norm",
                {"l1_bound": 4.0, "solver": Solver(init="largest_norm")},
            ),
            ("--algorithm full --no-acceleration", {"solver": Solver("full", acceleration=False)}),
            ("--solver paper --gamma 0.1", {"solver": "paper", "tol": 1e-6}),
        ],
    )
    def test_flags_reach_the_estimator(self, gpower, data, tmp_path, flags, expected):
        gpower.succeed("fit", data, *flags.split(), "-o", tmp_path)
        params = GPower.load(tmp_path / "model.npz").get_params()
        assert {name: params[name] for name in expected} == expected

    def test_covariance(self, gpower, pitprops, tmp_path):
        result = gpower("fit", pitprops, "--covariance", "-m", 1, "-k", 5, "-o", tmp_path)
        assert GPower.load(tmp_path / "model.npz").explained_variance_[0] == pytest.approx(3.406155, abs=1e-6)
        assert not (tmp_path / "scores.csv").exists()
        assert "loadings.csv, loadings_list.csv, model.npz" in result.stdout


class TestChosenNumbers:
    @pytest.mark.parametrize(
        ("flags", "options", "sentence"),
        [
            (
                ["--criterion", "prediction", "--grid", "2,4,8", "--missing", "impute"],
                {"criterion": "prediction", "cardinalities": [2, 4, 8], "missing": "impute"},
                "in 5 folds: ",
            ),
            (
                ["--rule", "one-se", "--method", "block", "--grid", "2,5", "--folds", 3, "--n-init", 2],
                {"rule": "one-se", "method": "block", "search": "joint", "cardinalities": [2, 5], "cv": 3, "n_init": 2},
                "one standard error of the largest variance explained",
            ),
        ],
    )
    def test_auto_chooses_by_cross_validation_with_a_note(self, gpower, tmp_path, flags, options, sentence):
        X = EXPRESSION.X[:, :12].copy()
        if "missing" in options:
            X[3, 4] = X[10, 0] = np.nan
        path = write_csv(tmp_path / "few.csv", X)
        result = gpower.succeed("fit", path, "-m", 2, "-k", "auto", *flags, "-o", tmp_path)
        model, chosen = GPower.load(tmp_path / "model.npz"), GPowerCV(2, **options).fit(X)
        np.testing.assert_allclose(model.components_, chosen.components_, atol=1e-10)
        choice = chosen.cardinality_choice_
        assert model.cardinality_choice_ == choice
        assert f"note: {choice}." in result.stderr
        assert sentence in choice
        for shown in (gpower.succeed("inspect", tmp_path / "model.npz").stdout, str(model), str(chosen)):
            assert choice[1:] in shown

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


FEW, FEW_NAMES = EXPRESSION.X[:, :40], EXPRESSION.feature_names[:40]


def write_named(path, at, names, values):
    """Write the table with columns of other values at some position."""
    columns = [*FEW_NAMES[:at], *names, *FEW_NAMES[at:]]
    return write_csv(path, np.insert(FEW, [at] * len(names), values, axis=1), columns)


@pytest.mark.parametrize(
    ("name", "write", "flags"),
    [
        ("t.csv", lambda path: write_csv(path, FEW.T, EXPRESSION.sample_names, FEW_NAMES), ["--transpose"]),
        ("t.csv", lambda path: write_named(path, 2, ["id"], np.arange(60)[:, None]), ["--index-col", "id"]),
        ("t.csv", lambda path: write_named(path, 2, ["batch", "my age"], 7.0), ["--drop", "batch, my age"]),
        ("t.npz", lambda path: np.savez(path, first=EXPRESSION.X, second=FEW), ["--key", "second"]),
    ],
)
def test_flags_of_the_table_reach_its_reader(gpower, tmp_path, name, write, flags):
    write(tmp_path / name)
    found = gpower.read_json("fit", tmp_path / name, "-m", 2, "-k", 3, *flags)
    np.testing.assert_allclose(found["components_"], GPower(2, cardinality=3).fit(FEW).components_, atol=1e-8)
    if name.endswith("csv"):
        assert found["feature_names_in_"] == list(FEW_NAMES)


class TestOutput:
    @pytest.fixture
    def model(self):
        return GPower(3, cardinality=[8, 6, 5]).fit(EXPRESSION.X)

    def test_files_hold_the_fitted_model_and_its_picture(self, gpower, data, tmp_path, model):
        pytest.importorskip("matplotlib")
        folder, picture = tmp_path / "new" / "results", tmp_path / "new" / "p.SVG"
        result = gpower("fit", data, "-k", "8,6,5", "-o", folder, "--plot", picture)
        assert result.stdout.splitlines()[-1] == f"Picture: {picture}"
        assert picture.read_bytes().startswith(b"<?xml")
        written = f"Wrote loadings.csv, loadings_list.csv, scores.csv, model.npz into {folder}."
        assert written in result.stdout.splitlines()
        components = ("component_1", "component_2", "component_3")
        loadings, *names = read_csv(folder / "loadings.csv")
        np.testing.assert_array_equal(loadings, model.components_.T)
        assert names == [components, EXPRESSION.feature_names]
        scores, *names = read_csv(folder / "scores.csv")
        np.testing.assert_allclose(scores, model.transform(EXPRESSION.X), rtol=1e-12)
        assert names == [components, EXPRESSION.sample_names]
        again = GPower.load(folder / "model.npz")
        np.testing.assert_array_equal(again.components_, model.components_)
        assert tuple(again.feature_names_in_) == EXPRESSION.feature_names

    def test_json_has_the_fitted_attributes_and_the_loadings_by_name(self, gpower, data, model):
        result = gpower("fit", data, "-k", "8,6,5", "--json")
        assert result.stderr == ""
        found = json.loads(result.stdout)
        for name in {name for name in vars(model) if name.endswith("_") and not name.startswith("_")} - {"gamma_"}:
            np.testing.assert_array_equal(found[name], getattr(model, name), err_msg=name)
        assert found["gamma_"] == [None, None, None]  # NaN is not JSON
        by_name = {entry["name"]: entry["loading"] for entry in found["loadings"][0]}
        assert by_name == model.loadings(EXPRESSION.feature_names)[0]

    def test_json_is_alone_on_stdout(self, gpower, data, tmp_path):
        result = gpower(
            "fit", data, "--gamma", 0.1, "--init", "largest_norm", "--max-iter", 1, "--json", "-o", tmp_path
        )
        notes = json.loads(result.stdout)["notes"]
        assert len(notes) == 1
        assert result.stderr.splitlines() == [
            f"note: {notes[0]}",
            f"Wrote loadings.csv, loadings_list.csv, scores.csv, model.npz into {tmp_path}.",
        ]

    def test_hints_about_the_table_are_notes(self, gpower, tmp_path):
        X = np.insert(EXPRESSION.X, 0, 100 + np.arange(len(EXPRESSION.X)), axis=1)
        path = write_csv(tmp_path / "t.csv", X, ["entrez", *EXPRESSION.feature_names])
        result = gpower("fit", path, "-k", 5, "--json")
        notes = json.loads(result.stdout)["notes"]
        assert notes[0] == "column 'entrez' looks like row names; if it is, add --index-col entrez."
        assert result.stderr == "".join(f"note: {each}\n" for each in notes)
        assert gpower("fit", path, "-k", 5, "--index-col", "entrez").stderr == ""


class TestErrors:
    def test_without_a_gpu_the_error_is_one_line(self, gpower, data):
        result = gpower("fit", data, "-k", "5", "--device", "cuda")
        if result.exit_code == 0:
            pytest.skip("there is a GPU")
        assert_refused(result, "CuPy")

    def test_a_picture_without_matplotlib(self, gpower, data, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        assert_refused(gpower("fit", data, "--plot", tmp_path / "p.png"), "pip install matplotlib")

    @pytest.mark.parametrize(
        "line", ["fit", "compare t.csv", "fit t.csv -k many", "fit t.csv --n-init few", "fit t.csv --nonsense", "no"]
    )
    def test_wrong_usage_is_code_two(self, gpower, line):
        result = gpower(*line.split())
        assert result.exit_code == 2
        assert "Error" in result.stderr

    def test_interrupted(self, gpower, data, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(GPower, "fit", interrupt)
        result = gpower("fit", data)
        assert (result.exit_code, result.stderr, result.stdout) == (130, "Interrupted.\n", "")


class TestCertify:
    def test_certify_prints_the_share_of_the_upper_bound(self, gpower, data, pitprops):
        printed = gpower("fit", pitprops, "--covariance", "-m", "2", "-k", "5", "--certify").stdout
        assert printed.count("proven: the best possible") == 2
        printed = gpower("fit", data, "-k", "20", "--certify").stdout
        assert re.search(r"≥ \d\d\.\d+ % of the best possible", printed)
        found = gpower.read_json("fit", pitprops, "--covariance", "-k", "5", "--certify")
        assert found["upper_bound_"][0] == pytest.approx(3.40615, rel=2e-4)
        assert "upper_bound_" not in gpower.read_json("fit", pitprops, "--covariance", "-k", "5")


class TestProgress:
    @pytest.fixture
    def terminal(self):
        return Console(file=io.StringIO(), force_terminal=True, width=100)

    def test_shows_steps_and_what_is_done_without_markup(self, terminal):
        with OutputSink(terminal, terminal).show_progress("reading [/b]\x07.csv") as tell:
            for _ in range(2):
                tell(SimpleNamespace(value=1.25, feasible_set=None))
        assert "reading [/b]\\x07.csv, step 2, objective 1.25" in terminal.file.getvalue()

    def test_shows_passes_gigabytes_and_the_time_left_of_a_store(self, terminal):
        state = SimpleNamespace(value=2.0, feasible_set=SimpleNamespace(passes=3.5))
        with OutputSink(terminal, terminal).show_progress("fitting", matrix_bytes=2e9) as tell:
            tell(state)
        assert "objective 2, 3.5 passes, 7 GB read, about 0:" in terminal.file.getvalue()
        assert console_module._format_passes(state, 2e9, 70.0).endswith("about 0:03:50 left")

    def test_shows_how_much_of_known_work_is_done(self, terminal):
        with OutputSink(terminal, terminal).show_progress_bar("walking") as tell:
            tell(3, 7)
        for words in ("walking", "3/7"):
            assert words in terminal.file.getvalue()

    def test_progress_is_shown_on_a_terminal_only(self):
        console = Console(file=io.StringIO(), force_terminal=False)
        with OutputSink(console, console).show_progress("fitting") as tell:
            assert tell is None
        assert console.file.getvalue() == ""


class TestDemo:
    def test_prints_both_tables_draws_both_pictures_and_writes_a_report(self, gpower, tmp_path):
        pytest.importorskip("matplotlib")
        pytest.importorskip("bokeh")
        result = gpower.succeed("demo", "--output", tmp_path / "demo")
        assert result.stderr == ""
        for name in ("pitprops.png", "expression.png"):
            assert (tmp_path / "demo" / name).read_bytes().startswith(b"\x89PNG")
            assert f"Picture: {tmp_path / 'demo' / name}" in result.stdout.splitlines()
        file = tmp_path / "demo" / "report.html"
        assert f"Report: {file}, a page to explore; open it in any browser: {file.as_uri()}" in result.stdout
        assert "GROWTH3" in file.read_text(encoding="utf-8")
        assert "Component 6" in result.stdout
        assert "Component 1 found 8 of the 8 GROWTH genes." in result.stdout
        assert "Component 3 found 5 of the 5 STRESS genes." in result.stdout

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
