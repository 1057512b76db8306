"""Paths of solutions: quality, numbers, slices, files, interruption and resumption."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from tests.enumeration import find_best_variance
from tests.seeds import seeds

from gpower import GPower, GPowerWarning, Solver, SparsityPath, sparsity_path
from gpower.model_selection import cardinality_grid

FITTED = ("explained_variance_", "explained_variance_ratio_", "cardinality_", "objective_", "mean_", "scale_")


def table(seed=0, p=25, n=12):
    """Return a group of four variables in noise of unequal size."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((p, n)) * rng.uniform(0.5, 2, n) + 3.0
    X[:, :4] += 2 * rng.standard_normal((p, 1))
    return X


def fitted_names(model):
    return {name for name in vars(model) if name.endswith("_")}


def interrupted_after(steps):
    def tell(done, total):
        if done == steps:
            raise KeyboardInterrupt

    return tell


# --- quality ---


@pytest.mark.parametrize(
    "X",
    [
        *(np.random.default_rng(seed).standard_normal((6, 8)) for seed in range(2)),
        *(np.round(np.random.default_rng(seed).standard_normal((6, 8))) for seed in range(2)),
        stats.zscore(table(1051, 40, 12), ddof=1),
    ],
    ids=["first", "second", "first with ties", "second with ties", "standardised"],
)
def test_tiny_problems_are_solved_as_enumeration_solves_them(X):
    path = sparsity_path(X, cardinalities=range(1, X.shape[1] + 1))
    best = [find_best_variance(np.cov(X.T), k) for k in path.grid]
    np.testing.assert_allclose(path.adjusted_variance[:, 0], best, rtol=1e-8)
    assert path.cardinality[:, 0].tolist() == path.grid.tolist()


@st.composite
def matrices(draw):
    """Draw random, duplicated, rank-deficient or standardised columns."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    p, n = draw(st.integers(3, 10)), draw(st.integers(2, 7))
    X = rng.standard_normal((p, n)) * rng.uniform(0.3, 3, n)
    kind = draw(st.sampled_from(["random", "duplicated", "rank one", "rank two", "standardised"]))
    if kind == "duplicated":
        X = X[:, rng.integers(0, n, n)]
    if kind.startswith("rank"):
        r = 1 if kind == "rank one" else 2
        X = rng.standard_normal((p, r)) @ rng.standard_normal((r, n))
    return (X - X.mean(axis=0)) / X.std(axis=0) if kind == "standardised" else X


@given(X=matrices(), form=st.sampled_from(["dense", "sparse", "covariance"]), starts=st.sampled_from(["auto", 1]))
def test_variance_never_falls_as_the_cardinality_grows(X, form, starts):
    given_as = {"dense": X, "sparse": sp.csr_array(X), "covariance": np.cov(X.T)}[form]
    covariance = "precomputed" if form == "covariance" else None
    path = sparsity_path(given_as, cardinalities=range(1, X.shape[1] + 1), covariance=covariance, n_init=starts)
    variance = path.adjusted_variance[:, 0]
    assert np.all(np.diff(variance) >= -1e-9 * variance.max())
    np.testing.assert_allclose(variance[-1], np.linalg.eigvalsh(np.cov(X.T))[-1], rtol=1e-7)
    np.testing.assert_allclose(path.share_of_pca[-1], 1, rtol=1e-7)


@pytest.mark.parametrize("seed", seeds(range(2), fast=1))
@pytest.mark.parametrize(
    "options",
    [
        {"method": "block", "n_components": 2, "cardinalities": [2, 5, 11]},
        {},
        {"penalty": "l1"},
        {"n_components": 1, "positive": True},
        {"method": "block", "n_components": 2},
        {"method": "block", "n_components": 2, "mu": [1.0, 0.5], "penalty": "l1"},
    ],
)
def test_a_point_is_never_worse_than_a_fit_of_its_own(options, seed):
    X = table(seed, 20, 30)
    name = "explained_variance_" if "cardinalities" in options else "objective_"
    for model in sparsity_path(X, **({} if "cardinalities" in options else {"gammas": [0.02, 0.1, 0.3]}), **options):
        alone = GPower(**model.get_params(deep=False)).fit(X)
        assert getattr(model, name).sum() >= getattr(alone, name).sum() * (1 - 1e-5)


# --- numbers of a point ---

CASES = {
    "one": {},
    "three, scaled": {"n_components": 3, "scale": True},
    "schur": {"n_components": 2, "deflation": "schur"},
    "block": {"n_components": 2, "method": "block"},
    "positive": {"positive": True},
    "l1": {"penalty": "l1"},
    "not centred": {"center": False},
}


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_of_a_point_follow_from_its_loadings(case):
    X, options = table(), CASES[case]
    path = sparsity_path(X, cardinalities=[3, 4, 7], **options)
    A = X - X.mean(axis=0) if options.get("center", True) else X
    A = A / A.std(axis=0, ddof=1) if options.get("scale") else A
    singular = np.linalg.svd(A, compute_uv=False) ** 2
    for i, k in enumerate([3, 4, 7]):
        Z = path.components(i).toarray().T
        np.testing.assert_allclose(np.linalg.norm(Z, axis=0), 1)
        assert np.all(np.count_nonzero(Z, axis=0) == path.cardinality[i])
        assert np.all(path.cardinality[i] <= k if options.get("positive") else path.cardinality[i] == k)
        own = np.sum((A @ Z) ** 2, axis=0)
        order = np.argsort(-own)
        adjusted = np.empty(own.size)
        adjusted[order] = np.diagonal(np.linalg.qr((A @ Z)[:, order], mode="r")) ** 2
        np.testing.assert_allclose(path.variance[i], own / 24)
        np.testing.assert_allclose(path.adjusted_variance[i], adjusted / 24)
        np.testing.assert_allclose(path.explained_variance_ratio[i], adjusted / np.sum(A**2))
        np.testing.assert_allclose(path.share_of_pca[i], adjusted.sum() / singular[: own.size].sum())
    np.testing.assert_allclose(path.pca_variance_ratio, singular[: own.size] / singular.sum())
    np.testing.assert_allclose(path.column_norms, np.linalg.norm(A, axis=0))


@pytest.mark.parametrize("case", CASES)
def test_at_is_the_model_that_a_fit_of_the_same_support_gives(case):
    X, options = table(3), CASES[case]  # the data are chosen so that the supports agree
    model = sparsity_path(X, cardinalities=[3, 4, 6], **options).at(cardinality=4)
    alone = GPower(**{"n_components": 1} | options, cardinality=4).fit(X)
    np.testing.assert_array_equal(model.components_ != 0, alone.components_ != 0)
    assert model.get_params() == alone.get_params()
    assert fitted_names(model) == fitted_names(alone)
    # Any γ of an interval gives the support of an ℓ1 penalty.
    rough_names = {"gamma_", "objective_"} if options.get("penalty") == "l1" else set()
    for name in (*FITTED, "components_", "gamma_"):
        rtol = 0.5 if name in rough_names else 1e-5
        np.testing.assert_allclose(getattr(model, name), getattr(alone, name), rtol=rtol, atol=1e-6)
    for name in ("objective_", "stationarity_gap_", "n_iter_", "converged_"):
        assert getattr(model, name).shape == getattr(alone, name).shape
    assert model.n_iter_ >= 1
    np.testing.assert_allclose(model.transform(X), alone.transform(X), atol=1e-5)
    np.testing.assert_allclose(model.score(X), alone.score(X), rtol=1e-6)


def test_names_and_number_type_are_kept(reload):
    frame = pd.DataFrame(table(), columns=[f"gene{j}" for j in range(12)])
    path = sparsity_path(frame, cardinalities=[2])
    for model in (path[0], reload(path)[0]):
        assert model.feature_names_in_.tolist() == list(frame.columns)
        assert set(model.loadings()[0]) <= set(frame.columns)
    path = sparsity_path(table().astype(np.float32), cardinalities=[2, 5])
    assert path.loadings.dtype == np.float32
    assert path[0].transform(table().astype(np.float32)).dtype == np.float32


def test_holes_are_filled_once_for_the_whole_path():
    X = table()
    X[3, 2] = np.nan
    path = sparsity_path(X, cardinalities=[3, 5], missing="impute")
    alone = GPower(1, cardinality=3, missing="impute").fit(X)
    np.testing.assert_allclose(path[0].components_, alone.components_, atol=1e-8)
    with pytest.raises(ValueError, match=r"column 2, row 3 .*missing='impute'"):
        sparsity_path(X, cardinalities=[3, 5])


# --- grids ---


def test_the_default_grid_goes_from_one_to_all_on_a_logarithmic_scale():
    X = np.random.default_rng(0).standard_normal((8, 60))
    path = sparsity_path(X, n_init=1, solver=Solver(local_search=False))
    np.testing.assert_array_equal(path.grid, cardinality_grid(60))
    assert (path.grid[0], path.grid[-1]) == (1, 60)
    assert len(path) <= 50
    wide = cardinality_grid(10_000)
    assert np.ptp(np.log(wide[wide > 50][1:] / wide[wide > 50][:-1])) < 0.03


def test_order_and_repetition_do_not_matter():
    X = table()
    tidy, untidy = (sparsity_path(X, cardinalities=grid) for grid in ([2, 5, 9], (9, np.int64(2), 5, 2, 9)))
    assert untidy.grid.tolist() == [2, 5, 9]
    np.testing.assert_array_equal(tidy.loadings.toarray(), untidy.loadings.toarray())
    gammas = sparsity_path(X, gammas=[0.1, 0.5, 0.1])
    assert gammas.grid.tolist() == [0.5, 0.1]
    assert gammas.cardinality[0, 0] <= gammas.cardinality[1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cardinalities": []}, "cardinalities is empty; give at least one number"),
        ({"cardinalities": [2, 13]}, "contains 13: each entry must be a whole number .* between 1 and 12"),
        *(({"cardinalities": [2, bad]}, f"cardinalities contains {bad!r}") for bad in (0, -1, 2.5, True, "5")),
        ({"cardinalities": "5,10"}, "a sequence of numbers is needed, such as cardinalities="),
        ({"cardinalities": 5}, "cardinalities=5: a sequence of numbers is needed"),
        ({"gammas": [1.0]}, "gammas contains 1.0: each entry must be a fraction, from 0 to below 1"),
        ({"gammas": [float("nan")]}, "gammas contains nan"),
        ({"gammas": []}, "gammas is empty"),
        ({"gammas": [0.1], "cardinalities": [2]}, "two grids; give one of them"),
        ({"cardinality": 3}, r"give cardinalities=\[...\] or gammas=\[...\] instead of cardinality"),
        ({"gamma": 0.1}, "instead of gamma"),
        ({"l1_bound": 2}, "instead of l1_bound"),
        ({"n_components": 0}, "n_components=0: a whole number of at least 1"),
    ],
)
def test_impossible_grids_and_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sparsity_path(table(), **options)


# --- a sequence ---


def test_a_path_is_a_sequence_of_models():
    path = sparsity_path(table(), cardinalities=[2, 5, 9], n_components=2)
    assert len(path) == 3
    assert sp.issparse(path.loadings)
    assert (path.loadings.shape, path.loadings.nnz) == ((6, 12), 2 * (2 + 5 + 9))
    assert [model.cardinality for model in path] == [2, 5, 9]
    assert [model.cardinality for model in reversed(path)] == [9, 5, 2]
    np.testing.assert_array_equal(path[-1].components_, path.at(cardinality=9).components_)
    with pytest.raises(IndexError):
        path[3]
    assert repr(path) == "<SparsityPath: 3 points, cardinality 2 to 9, 2 component(s)>"
    part = path[1:]
    assert isinstance(part, SparsityPath)
    assert part.grid.tolist() == [5, 9]
    np.testing.assert_array_equal(part[0].components_, path[1].components_)
    np.testing.assert_array_equal(part.share_of_pca, path.share_of_pca[1:])
    assert path[::-1].grid.tolist() == [2, 5, 9]  # a path keeps its order
    with pytest.raises(ValueError, match="The slice contains no point"):
        path[5:]


def test_at_names_the_nearest_where_there_is_none():
    path = sparsity_path(table(), cardinalities=[1, 2, 5, 9])
    with pytest.raises(ValueError, match="No point of the path has cardinality=4; the nearest are 1, 2, 5"):
        path.at(cardinality=4)
    for words in ({}, {"cardinality": 2, "gamma": 0.1}, {"cardinality": 2, "share": 0.8}):
        with pytest.raises(ValueError, match="takes one of cardinality, gamma and share"):
            path.at(**words)
    with pytest.raises(ValueError, match=r"This path runs over cardinalities; use at\(cardinality=...\)"):
        path.at(gamma=0.1)
    gammas = sparsity_path(table(), gammas=[0.5, 0.1])
    assert gammas.at(gamma=0.1).gamma == 0.1
    count = int(gammas.cardinality[0, 0])
    assert gammas.at(cardinality=count).cardinality_.tolist() == [count]


def test_the_frame_has_a_row_per_point_and_component():
    path = sparsity_path(table(), cardinalities=[2, 5], n_components=3)
    frame = path.to_frame()
    assert frame.columns.tolist() == list(path.columns())
    assert frame[["point", "component"]].to_numpy().tolist() == [[i, j] for i in range(2) for j in range(3)]
    for name in ("gamma", "cardinality", "variance", "adjusted_variance", "explained_variance_ratio"):
        np.testing.assert_array_equal(frame[name], getattr(path, name).ravel())
    np.testing.assert_array_equal(frame["share_of_pca"], np.repeat(path.share_of_pca, 3))


# --- files ---


@pytest.mark.parametrize(
    "options",
    [
        {"cardinalities": [2, 5], "n_components": 2, "scale": True},
        {"gammas": [0.1, 0.4], "penalty": "l1", "solver": Solver(init="largest_norm")},
        {"cardinalities": [3], "method": "block", "n_components": 2, "mu": (1.0, 0.5)},
    ],
)
def test_a_saved_path_comes_back(reload, options):
    path = sparsity_path(table(), random_state=np.random.RandomState(1), **options)
    again = reload(path)
    assert (again.kind, again.n_samples, again.complete, len(again)) == (path.kind, 25, True, len(path))
    for mine, theirs in zip(path, again, strict=True):
        assert fitted_names(mine) == fitted_names(theirs)
        for name in (*FITTED, "components_", "gamma_", "n_iter_", "converged_", "n_passes_"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        np.testing.assert_array_equal(mine.transform(table()), theirs.transform(table()))
        assert type(mine.n_iter_) is type(theirs.n_iter_)
    for name in ("variance", "share_of_pca", "pca_variance_ratio", "column_norms"):
        np.testing.assert_array_equal(getattr(again, name), getattr(path, name))


def test_a_saved_model_is_no_path(tmp_path):
    GPower(1, cardinality=2).fit(table()).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="holds a GPower, not a SparsityPath"):
        SparsityPath.load(tmp_path / "model.npz")
    sparsity_path(table(), cardinalities=[2]).save(tmp_path / "path.npz")
    with pytest.raises(ValueError, match="holds a SparsityPath, not a GPower"):
        GPower.load(tmp_path / "path.npz")


# --- interruption ---


def test_progress_counts_the_steps_of_both_walks():
    seen = []
    sparsity_path(table(), cardinalities=[2, 5, 9], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


@pytest.mark.parametrize("steps", [1, 4, 6])
@pytest.mark.parametrize("options", [{"n_components": 2}, {"gammas": [0.6, 0.4, 0.2, 0.05]}])
def test_an_interrupted_path_keeps_its_points_and_can_be_resumed(reload, steps, options):
    options = {"cardinalities": [2, 4, 6, 9]} | options if "gammas" not in options else options
    X = table()
    with pytest.warns(UserWarning, match=rf"Interrupted: {min(steps, 4)} of 4 points were reached; they are kept"):
        part = sparsity_path(X, progress=interrupted_after(steps), **options)
    assert not part.complete
    assert len(part) == min(steps, 4)
    part = reload(part)
    assert not part.complete
    whole, resumed = sparsity_path(X, **options), sparsity_path(X, resume=part, **options)
    assert resumed.complete
    assert sparsity_path(X, resume=whole, **options) is whole
    np.testing.assert_array_equal(resumed.grid, whole.grid)
    np.testing.assert_allclose(resumed.adjusted_variance, whole.adjusted_variance, rtol=1e-6)
    np.testing.assert_array_equal(resumed.loadings.toarray() != 0, whole.loadings.toarray() != 0)


def test_a_finer_grid_reuses_the_points_of_a_path():
    X = np.random.default_rng(0).standard_normal((20, 40))
    good = sparsity_path(X, cardinalities=[5, 10], n_init=40)
    fine = sparsity_path(X, cardinalities=[3, 5, 7, 10, 12], n_init=1, solver=Solver(local_search=False))
    resumed = sparsity_path(X, cardinalities=[3, 5, 7, 10, 12], n_init=1, solver=Solver(), resume=good)
    assert np.all(resumed.adjusted_variance[[1, 3]] >= good.adjusted_variance * (1 - 1e-12))
    assert np.all(resumed.adjusted_variance >= fine.adjusted_variance * (1 - 1e-9))


def test_an_interruption_before_the_first_point_is_raised():
    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sparsity_path(table(), cardinalities=[2, 5], solver=Solver(callback=stop))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": table(1)}, "of other data"),
        ({"X": table()[:, :9]}, "another grid or is of other data"),
        ({"scale": True}, "scale differ"),
        ({"n_components": 2}, "n_components differ"),
        ({"penalty": "l1", "solver": Solver(local_search=False)}, "penalty, solver differ"),
        ({"sample_weight": np.arange(25)}, "of other data"),
        ({"cardinalities": None, "gammas": [0.1]}, "another grid"),
    ],
)
def test_a_path_of_other_data_cannot_be_resumed(change, message):
    earlier = sparsity_path(table(), cardinalities=[2, 5])
    options = {"X": table(), "cardinalities": [2, 5, 7]} | change
    with pytest.raises(ValueError, match=f"resume: .*{message}"):
        sparsity_path(options.pop("X"), resume=earlier, **options)


@pytest.mark.parametrize("change", [{"memory_limit": "1GB"}, {"checkpoint": "fit.npz"}, {"warm_start": True}])
def test_a_path_can_be_resumed_under_other_conditions(change):
    earlier = sparsity_path(table(), cardinalities=[2, 5])
    assert len(sparsity_path(table(), cardinalities=[2, 5, 7], resume=earlier, **change)) == 3


def test_standardised_data_of_equal_norms_are_distinguished():
    first, second = (np.corrcoef(table(seed).T) for seed in (0, 1))
    earlier = sparsity_path(first, covariance="precomputed", cardinalities=[2, 5])
    with pytest.raises(ValueError, match="of other data"):
        sparsity_path(second, covariance="precomputed", cardinalities=[2, 5, 7], resume=earlier)


# --- warnings ---


def test_points_that_did_not_converge_are_counted():
    with pytest.warns(ConvergenceWarning, match=r"of 3 points: the ascent stopped .*max_iter=1, .*raise max_iter"):
        sparsity_path(table(), cardinalities=[2, 5, 9], max_iter=1, solver=Solver(local_search=False))


def test_constant_columns_are_a_note(reload):
    X, notes = table(), ["1 column(s) do not vary and get no loading: 7."]
    X[:, 7] = 3.0
    path = sparsity_path(X, cardinalities=[2, 12])
    assert path[0].notes_.tolist() == notes
    assert reload(path)[1].notes_.tolist() == notes
    with pytest.warns(GPowerWarning, match="No column varies") as caught:
        sparsity_path(np.ones((5, 4)), cardinalities=[2, 4])
    assert len(caught) == 1
    assert path.cardinality.ravel().tolist() == [2, 11]


def test_points_without_variance_left_are_counted():
    X = np.outer(np.arange(6.0), [1.0, 2.0, 3.0])
    with pytest.warns(ConvergenceWarning, match="2 of 2 points have a component without active variables"):
        path = sparsity_path(X, cardinalities=[3, 2], n_components=2, deflation="schur")
    assert path.cardinality[:, 1].tolist() == [0, 0]


# --- gamma for a cardinality ---


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("k", [1, 5, 17])
def test_gamma_is_found_for_a_cardinality(seed, k):
    X = np.random.default_rng(seed).standard_normal((20, 40))
    model = GPower(1, penalty="l1", cardinality=k).fit(X)
    assert model.cardinality_.tolist() == [k]
    largest = np.linalg.norm(X - X.mean(axis=0), axis=0).max()
    solver = Solver(init=(X - X.mean(axis=0)) @ model.components_.T)
    again = GPower(1, penalty="l1", gamma=float(model.gamma_[0] / largest), solver=solver).fit(X)
    np.testing.assert_array_equal(again.components_ != 0, model.components_ != 0)


def test_a_jump_over_the_cardinality_is_cut_with_a_warning():
    """Every column occurs twice, so that active sets are even: the best three of four are kept and refitted."""
    X = np.repeat(table(0, 30, 8), 2, axis=1)
    A = X - X.mean(axis=0)
    with pytest.warns(UserWarning, match="No penalty was found with exactly the wanted number of active variables"):
        model = GPower(1, penalty="l1", cardinality=3).fit(X)
    support = np.flatnonzero(model.components_[0])
    assert support.size == 3
    four = GPower(1, penalty="l1", gamma=float(model.gamma_[0] / np.linalg.norm(A, axis=0).max()))
    larger = np.flatnonzero(four.fit(X).components_[0])
    assert larger.size == 4
    assert set(support) < set(larger)
    z = np.abs(np.linalg.svd(A[:, larger])[2][0])
    assert z[~np.isin(larger, support)] <= z.min() * (1 + 1e-8)  # the one cut was the smallest after the refit
    best = np.linalg.svd(A[:, support])[2][0]
    np.testing.assert_allclose(np.abs(model.components_[0, support]), np.abs(best), atol=1e-7)
    with pytest.warns(UserWarning, match="At some points: No penalty was found"):
        path = sparsity_path(X, cardinalities=[3, 4], penalty="l1")
    assert path.cardinality.ravel().tolist() == [3, 4]
