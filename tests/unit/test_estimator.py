"""GPower as a scikit-learn estimator: API, attributes, containers."""

import subprocess
import sys
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.memory import measure_peak_memory
from tests.planted_data import make_modules

from gpower import GPower, GPowerCV, Solver, component_test, sparsity_path
from gpower._utils.warnings import ScaleWarning
from gpower.datasets import gaussian
from gpower.solvers import column_screening

pytestmark = pytest.mark.filterwarnings("ignore:.*nearly all of the variance:UserWarning")


def planted(p=40, n=30, seed=0):
    """Return noise with two planted components of five and four variables."""
    return make_modules((p, n), (slice(5), 4), (slice(10, 14), 3), seed=seed) + 5.0


@parametrize_with_checks([GPower()])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([GPower(cardinality=2), GPower(penalty="l1"), GPower(method="block"), GPower(gamma=0.0)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks_with_other_options(estimator, check):
    check(estimator)


def test_attributes_of_the_ascent_have_the_documented_shapes_and_values():
    """The attributes that the baselines have too are tested with theirs."""
    X = planted()
    model = GPower(2, cardinality=(5, 4)).fit(X)
    assert [np.flatnonzero(z).tolist() for z in model.components_] == [[0, 1, 2, 3, 4], [10, 11, 12, 13]]
    assert model.cardinality_.tolist() == [5, 4]
    assert np.isnan(model.gamma_).all()
    np.testing.assert_allclose(model.objective_[0], np.sum(((X - X.mean(axis=0)) @ model.components_[0]) ** 2))
    assert np.all(model.stationarity_gap_ >= 0)
    np.testing.assert_array_equal(model.scale_, np.ones(30))
    block = GPower(3, gamma=0.05, method="block", mu=(1, 0.8, 0.6)).fit(X)
    for fitted, n_ascents in ((model, 2), (block, 1)):
        for name in ("objective_", "stationarity_gap_", "n_iter_", "converged_"):
            assert getattr(fitted, name).shape == (n_ascents,)
    assert block.gamma_.shape == (3,)


def test_gamma_is_a_fraction_of_its_largest_useful_value():
    X = planted()
    largest = np.linalg.norm(X - X.mean(axis=0), axis=0).max()
    np.testing.assert_allclose(GPower(1, penalty="l1", gamma=0.3).fit(X).gamma_, 0.3 * largest)
    np.testing.assert_allclose(GPower(1, penalty="l0", gamma=0.3).fit(X).gamma_, 0.3 * largest**2)
    block = GPower(2, penalty="l0", gamma=0.3, method="block", mu=(2, 1)).fit(X)
    np.testing.assert_allclose(block.gamma_, 0.3 * (np.array([2, 1]) * largest) ** 2)


@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_the_objective_is_that_of_the_paper(penalty):
    X = planted()
    model = GPower(1, penalty=penalty, gamma=0.2, tol=1e-14, solver=Solver("full", refit=None)).fit(X)
    A = X - X.mean(axis=0)
    x = A @ model.components_[0]
    c = A.T @ (x / np.linalg.norm(x))
    gamma = model.gamma_[0]
    f = np.sum(np.maximum(np.abs(c) - gamma, 0) ** 2) if penalty == "l1" else np.sum(np.maximum(c**2 - gamma, 0))
    np.testing.assert_allclose(model.objective_[0], f, rtol=1e-6)


def test_inverse_transform_is_least_squares():
    X = planted()
    model = GPower(2, cardinality=6, scale=True).fit(X)
    standardised = (X - model.mean_) / model.scale_
    back = (model.inverse_transform(model.transform(X)) - model.mean_) / model.scale_
    coefficients = np.linalg.lstsq(model.components_.T, standardised.T, rcond=None)[0]
    np.testing.assert_allclose(back, (model.components_.T @ coefficients).T, atol=1e-10)


def test_the_score_of_a_sparse_matrix_and_a_covariance_is_that_of_the_data():
    X = planted()
    model = GPower(2, cardinality=6).fit(X)
    np.testing.assert_allclose(model.score(sp.csr_array(X)), model.score(X))
    S = np.cov(X.T)
    precomputed = GPower(2, cardinality=6, covariance="precomputed").fit(S)
    np.testing.assert_allclose(precomputed.score(S), model.score(X))


def test_covariance_keeps_its_units():
    X = planted()
    model = GPower(2, cardinality=5, covariance="precomputed").fit(np.cov(X.T))
    np.testing.assert_allclose(model.objective_ * 39, GPower(2, cardinality=5).fit(X).objective_)
    assert not model.mean_.any()
    assert (model.scale_ == 1).all()


@pytest.mark.parametrize(
    ("n", "options", "expected"),
    [
        (13, {}, 5),
        (40, {}, 10),
        (40, {"method": "block"}, 10),
        (40, {"groups": np.repeat(np.arange(4), 10)}, 20),
        (40, {"include": list(range(12))}, 12),
        (40, {"constraint": "disjoint"}, 10),
    ],
)
def test_a_component_has_ten_variables_or_a_third_by_default(n, options, expected):
    X = np.random.default_rng(0).standard_normal((50, n))
    assert GPower(2, **options).fit(X).cardinality_.tolist() == [expected, expected]


def test_penalties_that_need_gamma_have_a_default():
    X = planted()
    for options, gamma in (({"penalty": "l1"}, 0.1), ({"penalty_weights": np.ones(X.shape[1])}, 0.01)):
        expected = GPower(1, gamma=gamma, **options).fit(X)
        np.testing.assert_array_equal(GPower(1, **options).fit(X).components_, expected.components_)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_keep_their_names(package):
    X = planted(n=15)
    names = [f"gene{j}" for j in range(15)]
    table = pytest.importorskip(package).DataFrame(dict(zip(names, X.T, strict=True)))
    model = GPower(2, cardinality=3).fit(table)
    assert model.feature_names_in_.tolist() == names
    assert model.get_feature_names_out().tolist() == ["gpower0", "gpower1"]
    np.testing.assert_allclose(model.transform(table), GPower(2, cardinality=3).fit(X).transform(X))
    scores = model.set_output(transform=package).transform(table)
    assert isinstance(scores, type(table))
    assert list(scores.columns) == ["gpower0", "gpower1"]


@pytest.mark.parametrize("method", ["deflation", "block"])
@pytest.mark.parametrize("scale", [False, True])
def test_counts_as_weights_give_the_components_of_repeated_rows(method, scale):
    X = planted(p=25)
    weight = np.random.default_rng(0).integers(0, 4, 25)
    kwargs = {"cardinality": 5, "method": method, "scale": scale}
    weighted = GPower(2, **kwargs).fit(X, sample_weight=weight)
    repeated = GPower(2, **kwargs).fit(np.repeat(X, weight, axis=0))
    factor = (weight.sum() - 1) / (weight.sum() - np.sum(weight**2) / weight.sum())
    repeated.scale_ *= np.sqrt(factor) if scale else 1
    repeated.explained_variance_ *= 1 if scale else factor
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-8)
    for name in ("mean_", "scale_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("total", [1.0, 1e-8, 1e8])
def test_only_the_ratios_of_weights_matter(total, scale, dtype):
    X, tol = planted(p=25).astype(dtype), 1e3 * np.finfo(dtype).eps
    weight = np.random.default_rng(0).uniform(0, 3, 25)
    expected = GPower(2, cardinality=3, scale=scale).fit(X, sample_weight=weight)
    model = clone(expected)
    for batch in (model.fit, model.partial_fit):
        found = batch(X, sample_weight=weight * total / weight.sum())
        for name in ("components_", "explained_variance_", "explained_variance_ratio_", "mean_", "scale_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=tol, atol=tol)


def test_one_weight_far_above_the_others_keeps_their_digits():
    X, weight = planted(p=20), np.full(20, 1e-14)
    weight[3] = 1.0
    w = weight.astype(object)  # Python's own numbers, in fractions that do not round
    exact = float(2 * sum(Fraction(a) * Fraction(b) for a, b in combinations(w, 2)) / sum(map(Fraction, w)))
    model = GPower(1, cardinality=1, center=False).fit(X, sample_weight=weight)
    j = np.flatnonzero(model.components_)[0]
    np.testing.assert_allclose(model.explained_variance_, weight @ X[:, j] ** 2 / exact, rtol=1e-12)


def test_float32_keeps_components_of_columns_that_are_small():
    X = make_modules((60_000, 6), (slice(3), 2)) * [300, 300, 1, 1, 1, 1]
    exact, single = (GPower(3, cardinality=2).fit(X.astype(dtype)) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(single.explained_variance_, exact.explained_variance_, rtol=1e-4)


def test_a_callback_sees_every_step_and_can_stop():
    gaps = []
    GPower(1, gamma=0.1, solver=Solver("full", callback=lambda state: gaps.append(state.gap))).fit(planted())
    assert min(gaps) >= 0
    with pytest.warns(Warning, match="stopped before it converged"):
        model = GPower(1, gamma=0.01, tol=0.0, solver=Solver("full", callback=lambda state: True)).fit(planted())
    assert not model.converged_[0]
    assert model.n_iter_[0] == 1


def test_verbose_logs_the_result_and_the_notes_and_does_not_print(caplog, capsys):
    with caplog.at_level("INFO", logger="gpower"):
        model = GPower(2, cardinality=(4, 2), verbose=1).fit(np.column_stack([planted(), np.ones(40)]))
    assert "GPower: 2 components, 6 variables in all" in caplog.text
    assert model.notes_
    assert model.notes_[0] in caplog.text
    assert capsys.readouterr().out == ""


def test_importing_gpower_loads_no_optional_package():
    heavy = {"matplotlib", "pandas", "typer", "rich", "dask", "anndata", "polars", "torch", "zarr", "h5py", "pooch"}
    code = "import sys, sklearn.decomposition; before = {*sys.modules}; import gpower; print(*{*sys.modules} - before)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "gpower" in out.split()
    assert not heavy & set(out.split())  # besides those that scikit-learn itself imports


def test_loadings_are_named_and_sorted():
    model = GPower(1, cardinality=3).fit(planted(n=15))
    z = model.components_[0]
    largest = np.argsort(-np.abs(z))[:3]
    assert list(model.loadings()[0].items()) == [(f"x{j}", z[j]) for j in largest]
    assert list(model.loadings(list("abcdefghijklmno"))[0]) == ["abcdefghijklmno"[j] for j in largest]
    with pytest.raises(ValueError, match="feature_names has 3 entries, but there are 15 variables"):
        model.loadings(["a", "b", "c"])


def test_components_that_repeat_each_other_are_named():
    """One module of twelve variables fills several components of three under projection, one under Schur."""
    X = make_modules((60, 30), (slice(12), 3), (slice(15, 20), 2), noise=0.5)
    with pytest.warns(UserWarning, match=r"^Component 2 of 2: nearly all of the variance is that of other components"):
        GPower(2, cardinality=3, deflation="projection").fit(X)
    schur = GPower(2, cardinality=3).fit(X)
    assert set(np.flatnonzero(schur.components_[1])) <= set(range(15, 20))


def test_starts_beyond_the_columns_are_pca_and_random_ones():
    X = planted(n=8)
    solver = Solver(local_search=False)
    few, many = (GPower(1, cardinality=3, n_init=n, solver=solver).fit(X).objective_[0] for n in (8, 40))
    assert many >= few * (1 - 1e-12)
    assert GPower(1, gamma=0.05, n_init=20, variance="l1").fit(X).converged_.all()


@pytest.mark.filterwarnings("ignore:No penalty was found")
@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_a_calibrated_penalty_is_solved_to_convergence_on_a_working_set(penalty, k):
    """Each level starts at the solution of the last one, which is not its own solution."""
    X = make_modules((200, 1500), (slice(30), 1))
    model = GPower(1, penalty=penalty, cardinality=k, solver=Solver("working_set")).fit(X)
    if penalty == "l1":
        direct = GPower(1, penalty=penalty, cardinality=k, solver=Solver("full")).fit(X)
        assert model.gamma_ == pytest.approx(direct.gamma_, rel=1e-3)
        assert model.objective_ == pytest.approx(direct.objective_, rel=1e-3)
    assert model.stationarity_gap_ <= 1e-5 * model.objective_


def test_a_support_larger_than_the_samples_is_refitted_without_a_copy_of_the_matrix():
    rng = np.random.default_rng(0)
    p, n = 120, 4000
    U, V = (np.linalg.qr(rng.standard_normal((size, p)))[0] for size in (p, n))
    X = (U * (1 - 0.1 * np.linspace(0, 1, p) ** 4)) @ V.T  # leading values so close that Lanczos steps give up
    model = GPower(1, penalty="l1", gamma=1e-9, center=False, solver=Solver(init="largest_norm"))
    assert measure_peak_memory(lambda: model.fit(X)) < 0.6 * X.nbytes
    assert model.cardinality_[0] > 0.9 * n
    assert model.explained_variance_[0] * (p - 1) <= 1 + 1e-9


def test_a_fit_to_a_long_table_holds_few_copies_of_it(monkeypatch):
    monkeypatch.setattr(column_screening, "MAX_PRODUCT_COLUMNS", 20)  # takes time and no memory
    monkeypatch.setattr(column_screening, "MAX_BATCH_ENTRIES", 1 << 18)
    X = np.random.default_rng(0).standard_normal((10, 200_000), dtype=np.float32)
    X[:, :10] *= 3
    assert measure_peak_memory(lambda: GPower(2, cardinality=10).fit(X)) < 7.8 * X.nbytes


class TestSolver:
    def test_solvers_with_equal_start_arrays_are_equal(self):
        start = np.ones((3, 1))
        assert Solver(init=start) == Solver(init=start.copy())
        assert Solver(init=start) != Solver(init=2 * start)
        assert Solver(init=start) in [Solver(), Solver(init=start.copy())]

    def test_options_are_reached_by_name(self):
        model = GPower(1, solver=Solver(acceleration=False))
        assert clone(model).get_params()["solver__acceleration"] is False
        assert GPower(1).set_params(solver__refit=None).solver == Solver(refit=None)
        assert GPowerCV(1).set_params(solver__refit=None).solver == Solver(refit=None)

    def test_unknown_options_are_refused(self):
        with pytest.raises(ValueError, match="Invalid parameter 'speed' for estimator Solver"):
            GPower().set_params(solver__speed=3)
        with pytest.raises(ValueError, match="solver='paper' has no options to set"):
            GPower(solver="paper").set_params(solver__refit=None)

    def test_files_keep_all_options_but_the_callback(self, reload):
        X = planted()
        start = X[:, :1] - X[:, :1].mean()
        solver = Solver("full", start, refit=None, acceleration=False, callback=lambda state: None)
        loaded = reload(GPower(1, gamma=0.1, solver=solver).fit(X)).solver
        assert loaded == Solver("full", start.tolist(), refit=None, acceleration=False)

    @pytest.mark.parametrize(("penalty", "refit"), [("l0", None), ("l1", "norms")])
    @pytest.mark.parametrize("method", ["deflation", "block"])
    def test_the_setting_of_the_paper_is_its_algorithm(self, penalty, refit, method):
        X, options = planted(), {"gamma": 0.1, "penalty": penalty, "method": method, "deflation": "projection"}
        solver = Solver("full", "largest_norm", refit, local_search=False, acceleration=False)
        expected = GPower(2, solver=solver, n_init=1, tol=1e-4, **options).fit(X)
        np.testing.assert_array_equal(GPower(2, solver="paper", **options).fit(X).components_, expected.components_)

    def test_the_setting_of_the_paper_takes_another_tolerance(self):
        options = {"gamma": 0.1, "solver": "paper"}
        X = gaussian(40, 60, random_state=0)
        steps = [GPower(1, tol=tol, **options).fit(X).n_iter_[0] for tol in (1e-4, 1e-6, 1e-12)]
        assert steps[0] == steps[1] < steps[2]


def test_print_shows_the_components_of_a_fitted_model():
    model = GPower(1, cardinality=3)
    assert str(model) == repr(model)
    text = str(model.fit(planted()))
    assert text.startswith("GPower: 1 component, 3 variables in all, ")
    assert text.count("\n") == 1
    assert repr(model) == "GPower(cardinality=3, n_components=1)"
    with pytest.warns(UserWarning, match="before it converged"):
        stopped = GPower(1, gamma=0.01, max_iter=1, tol=0.0, solver=Solver("full")).fit(planted())
    assert "\nWarning: Component 1 of 1: the ascent stopped before it converged" in str(stopped)


def test_variables_of_far_larger_scale_that_make_up_components_are_named_with_the_remedy():
    wine = load_wine(as_frame=True).data
    with pytest.warns(ScaleWarning, match=r"^Components 1, 2 of 3: .*'proline' \(388 times\).*use scale=True\.$"):
        model = GPower(3, cardinality=3).fit(wine)
    assert len(model.warnings_) == 1
    assert not GPower(3, cardinality=3, scale=True).fit(wine).warnings_.size
    for function in (component_test, sparsity_path):
        with pytest.warns(ScaleWarning, match=r"'proline' \(388 times\)"):
            function(wine)


NOISE = np.random.default_rng(0).standard_normal((50, 12))
TWINS = np.column_stack([NOISE[:, 0], NOISE[:, 0] + 0.1 * NOISE[:, 1], NOISE[:, 2:6] / 1000])


@pytest.mark.parametrize(
    ("X", "covariance", "message"),
    [
        (NOISE * np.where(np.arange(12) == 7, 1000, 1), None, "other variables are similar.*leave them out"),
        (TWINS, None, r"column 1 \(941 times\), column 0 \(937"),  # neither alone has nearly all of the loadings
        (np.diag([399.0, 0.5, 0.5]) + 0.5, "precomputed", "give the correlation matrix"),
    ],
)
def test_the_remedy_for_variables_of_another_scale_depends_on_the_others(X, covariance, message):
    with pytest.warns(ScaleWarning, match=message):
        GPower(1, cardinality=3, covariance=covariance).fit(X)


def test_a_text_column_that_the_model_does_not_know_is_explained():
    wine = load_wine(as_frame=True).data
    model = GPower(1, cardinality=3, scale=True).fit(wine)
    with pytest.raises(ValueError, match=r"'note'\..* pass X\[model\.feature_names_in_\]"):
        model.transform(wine.assign(note="late"))
