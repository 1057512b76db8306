"""The permutation test counts planted components and rarely takes chance for one."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted_data import make_planted_components

from gpower import GPower, certify, component_test
from gpower.analysis import permuted_tables
from gpower.analysis.permuted_tables import DeflationStage, Permutations
from gpower.datasets import load_planted_expression
from gpower.plotting.model_data import prepare_operator
from gpower.solvers.fit_specification import ExactCardinality, FitSpec

SHAPE = (40, 80)
NOISE = {
    "Gaussian": lambda rng: rng.standard_normal(SHAPE),
    "heavy tails": lambda rng: rng.standard_t(2.5, SHAPE),
    "counts": lambda rng: rng.negative_binomial(2, 0.3, SHAPE) * rng.randint(1, 4, SHAPE[1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOISE)
def test_chance_is_rarely_taken_for_a_component(kind):
    claimed = sum(
        component_test(NOISE[kind](np.random.RandomState(seed)), 1, cardinality=5, n_permutations=39).n_components
        for seed in range(40)
    )
    assert claimed <= 0.05 * 40 + 2.6 * np.sqrt(40 * 0.05 * 0.95)


def test_variables_of_a_block_are_permuted_together():
    rng = np.random.RandomState(0)
    blocks = np.repeat(np.arange(20), 4)
    X = np.repeat(rng.standard_normal((60, 20)), 4, axis=1) + 0.5 * rng.standard_normal((60, 80))
    assert component_test(X, 2, cardinality=4, n_permutations=39).n_components > 0
    assert component_test(X, 2, cardinality=4, n_permutations=39, blocks=blocks).n_components == 0


@pytest.mark.parametrize("scale", [False, True])
def test_a_strong_component_of_short_variables_is_found(scale):
    """The component is three times above chance, and none of its variables is among the longest."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 1000))
    X[:, :15] = 0.9 * rng.standard_normal((60, 1)) + 0.44 * X[:, :15]
    X *= rng.uniform(0.8, 1.2, 1000)
    X[:, :15] /= X[:, :15].std(axis=0)
    test = component_test(X, 1, cardinality=15, scale=scale, n_permutations=39)
    best = GPower(1, cardinality=15, scale=scale).fit(X).explained_variance_[0]
    assert test.variance[0] == pytest.approx(best, rel=1e-3)
    assert best > 2 * test.null_quantile[0]


def test_a_second_component_is_not_found_in_the_rest_of_the_first():
    claimed = 0
    for seed in range(10):
        rng = np.random.RandomState(seed)
        X = rng.standard_normal((100, 24))
        X[:, :10] += 2 * rng.standard_normal((100, 1))
        claimed += component_test(X, 2, cardinality=10, n_permutations=39, random_state=seed).n_components > 1
    assert claimed <= 2


@pytest.fixture(scope="module")
def test():
    return component_test(load_planted_expression().X, 6, cardinality=6, n_permutations=60)


def test_p_values_never_fall_and_decide(test):
    assert test.p_values.shape == (6,)
    assert np.all(np.diff(test.p_values) >= 0)
    np.testing.assert_allclose(test.p_values[:3], np.array([1, 2, 2]) / 61)  # p-values of later components are doubled
    assert test.n_components == np.count_nonzero(test.p_values <= 0.05) == 3
    made = np.count_nonzero(~np.isnan(test.permuted_variance), axis=0)
    assert list(made) == [60, 60, 60, 20, 20, 20]  # hopeless components get no more permutations


def small_fit(A, k):
    """Compute the variance of k rows of A by the power method from the longest row and the one that explains most."""
    C = A @ A.T
    norms = np.sqrt(np.diagonal(C))
    found = []
    for start in (np.argmax(norms), np.argmax(np.sum(C**2, axis=1) / norms**2)):
        x = A[start] / norms[start]
        for _ in range(60):
            correlation = A @ x
            support = np.argsort(-np.abs(correlation))[:k]
            x = correlation[support] @ A[support]
            x /= np.linalg.norm(x)
        found.append(np.linalg.eigvalsh(C[np.ix_(support, support)])[-1])
    return max(found)


def by_hand(A, loadings, k, orders):
    """Compute the variances of components in A (n_features, n_samples) and in tables with permuted rows."""
    variance, permuted, scores = [], [], np.zeros((A.shape[1], 0))
    for j, z in enumerate(loadings):
        left = A - A @ scores @ scores.T
        before = np.linalg.qr(loadings[:j].T)[0]
        tables = [np.take_along_axis(left, order, axis=1) for order in orders]
        if j:
            tables = [P - before @ (before.T @ P) for P in tables]
            tables = [P - P @ scores @ scores.T for P in tables]
            tables = [P * (np.linalg.norm(left, axis=1) / np.linalg.norm(P, axis=1))[:, None] for P in tables]
        variance.append(small_fit(left, k))
        permuted.append([small_fit(P, k) for P in tables])
        scores = np.linalg.qr(np.column_stack([scores, A.T @ z]))[0]
    return np.array(variance), np.array(permuted).T


def test_p_values_are_those_of_the_procedure_written_out(monkeypatch):
    X = np.random.default_rng(100).standard_normal((40, 10))
    orders, plain = [], DeflationStage.permute_residual

    def record_order(stage, order):
        if stage.score_basis.size:  # orders of the second component; the first has the same
            orders.append(order)
        return plain(stage, order)

    monkeypatch.setattr(DeflationStage, "permute_residual", record_order)
    # The level is so high that all permutations are made.
    test = component_test(X, 2, cardinality=3, n_permutations=100, level=0.99)
    loadings = GPower(2, cardinality=3).fit(X).components_
    variance, permuted = by_hand((X - X.mean(axis=0)).T, loadings, 3, orders)
    np.testing.assert_allclose(test.variance, variance / 39, rtol=1e-4)
    same = np.isclose(test.permuted_variance, permuted / 39, rtol=1e-3)
    assert np.all(same.mean(axis=0) >= 0.95)  # of two nearly equal supports either may be found
    first, second = (1 + np.sum(permuted >= variance, axis=0)) / 101
    assert 0.05 < first < second < 0.5
    np.testing.assert_allclose(test.p_values, [first, 2 * second], atol=0.02)


def test_its_text_states_the_result(test):
    first, *lines = repr(test).splitlines()
    assert first == "<ComponentTest: 3 component(s) at the level 0.05"
    assert len(lines) == 6
    assert re.fullmatch(rf"  1: +{100 * test.variance[0] / test.total_variance:.1f} %.* p = 0\.016", lines[0])
    assert "all that were tested, there may be more" in repr(replace(test, level=1.0))


def test_variances_are_those_of_the_fit_and_horns_line_that_of_pca(test):
    X = load_planted_expression().X
    A = X - X.mean(axis=0)
    variances = np.linalg.svd(A, compute_uv=False)[:6] ** 2 / 59
    np.testing.assert_allclose(test.pca_variance, variances)
    assert np.all(np.diff(test.horn) < 0)
    assert test.n_components_pca == np.argmax(test.pca_variance <= test.horn)
    assert test.total_variance == pytest.approx(X.var(axis=0, ddof=1).sum())
    best = GPower(1, cardinality=6).fit(X).explained_variance_[0]
    assert 0.9 * best <= test.variance[0] <= best * (1 + 1e-5)


def test_the_number_of_jobs_makes_no_difference_and_the_seed_does():
    X, options = load_planted_expression().X[:, :40], {"cardinality": 5, "n_permutations": 39}
    test, again, other = (component_test(X, 2, **options, **more) for more in ({}, {"n_jobs": 2}, {"random_state": 1}))
    np.testing.assert_array_equal(again.permuted_variance, test.permuted_variance)
    np.testing.assert_array_equal(again.p_values, test.p_values)
    assert not np.array_equal(other.permuted_variance, test.permuted_variance)


def test_progress_is_reported():
    X, calls = load_planted_expression().X, []
    component_test(X, 2, cardinality=6, n_permutations=50, progress=lambda *at: calls.append(at))
    assert calls == [(20, 50), (40, 50), (50, 50)]


def test_some_variables_of_a_permuted_table_are_those_of_the_whole():
    X = make_planted_components(30, 12, (6,), (3.0,), random_state=0).X
    fit_spec = FitSpec(ExactCardinality(levels=(6,)))
    first = DeflationStage((X - X.mean(axis=0)).T.copy(), np.zeros((30, 0)), np.zeros((12, 0)), fit_spec)
    z = GPower(1, cardinality=6).fit(X).components_[0]
    second = first.deflate(z, fit_spec)
    rows = np.union1d([0, 7, 11], np.flatnonzero(z))
    blocks = np.empty(12, int)
    blocks[rows], blocks[np.setdiff1d(np.arange(12), rows)] = np.split(np.arange(12), [rows.size])
    strata = [np.arange(0, 30, 2), np.arange(1, 30, 2)]
    draw_orders = Permutations(30, blocks, rows.size, strata).draw(0)
    some, orders = draw_orders(rows), draw_orders(None)
    np.testing.assert_array_equal(some, orders[rows])
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(30), (12, 1)))
    np.testing.assert_allclose(
        second.restrict_to_variables(rows).permute_residual(some), second.permute_residual(orders)[rows]
    )


@pytest.mark.slow
@pytest.mark.parametrize("scale", [False, True])
def test_the_longest_variables_decide_as_all_do(scale, monkeypatch):
    """There are two strong components and a third among variables of unequal norms."""
    X = make_planted_components(40, 1500, (12, 12, 8), (60.0, 40.0, 6.0), random_state=0).X
    X *= np.random.RandomState(0).lognormal(0, 0.4, 1500)
    options = {"cardinality": 12, "scale": scale, "n_permutations": 39}
    fit, sizes = DeflationStage.compute_variance, []
    monkeypatch.setattr(DeflationStage, "compute_variance", lambda self, A: sizes.append(len(A)) or fit(self, A))
    quick = component_test(X, 4, **options)
    n_whole_tables = sizes.count(1500)
    monkeypatch.setattr(permuted_tables, "MIN_SCREENING_MARGIN", np.inf)  # all variables decide, same permutations
    slow = component_test(X, 4, **options)
    assert 3 * n_whole_tables < sizes.count(1500)  # many tables were decided by a few variables
    np.testing.assert_array_equal(quick.p_values, slow.p_values)
    made = quick.n_tested - 1
    np.testing.assert_allclose(quick.null_quantile[:made], slow.null_quantile[:made], rtol=0.1)


@pytest.mark.slow
def test_auto_fits_as_many_as_are_more_than_chance():
    X = load_planted_expression().X
    model = GPower("auto", cardinality=6).fit(X)
    assert model.components_.shape == (3, 150)
    np.testing.assert_array_equal(model.components_, GPower(3, cardinality=6).fit(X).components_)
    assert model.component_p_values_.shape == (20,)
    assert "3 of up to 20 components explain more than chance at the level 0.05 (p = 0.005," in model.notes_[-1]
    for given, found in (([8, 6, 5, 4], [8, 6, 5]), ([8, 6], [8, 6])):
        assert list(GPower("auto", cardinality=given).fit(X).cardinality_) == found
    narrow = X[:, np.argsort(-X.var(axis=0))[:20]]  # too few for all candidates of six variables each
    apart = GPower("auto", cardinality=6, constraint="disjoint").fit(narrow)
    assert 1 < apart.n_components_ <= 3
    assert np.count_nonzero(apart.overlap_) == apart.n_components_
    model.n_components = 2
    assert "component_p_values_" not in vars(model.fit(X))
    assert not model.notes_.size


def make_two_factors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    X[:, :5] += 2 * rng.standard_normal((60, 1))
    X[:, 5:9] += 1.5 * rng.standard_normal((60, 1))
    return X


@pytest.mark.parametrize(
    "options",
    [{}, {"penalty": "l1"}, {"method": "block"}, {"constraint": "disjoint"}, {"cardinality": [0.8, 0.7, 0.6]}],
)
def test_auto_certifies_the_components_that_it_fits(options):
    model = GPower("auto", **{"cardinality": [5, 4, 3, 3], "certify": True} | options).fit(make_two_factors())
    assert 0 < model.total_optimality_ratio_ <= 1
    assert len(model.upper_bound_) == len(model.components_) == 2


@pytest.mark.parametrize(
    ("lists", "options"),
    [
        ({"budget": [5.0, 4.0, 3.0]}, {"penalty_weights": [1.0] * 20}),
        ({"cardinality": [5, 4, 3], "include": [[0], [5], []]}, {}),
        ({"include": [[0], [5], []], "exclude": [[1], [6], []]}, {"cardinality": 5}),
    ],
)
def test_auto_uses_the_first_entries_of_lists(lists, options):
    X = make_two_factors()
    model = GPower("auto", **lists, **options).fit(X)
    expected = GPower(2, **{name: entries[:2] for name, entries in lists.items()}, **options).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.component_p_values_.shape == (3,)


def test_auto_keeps_one_component_of_noise_with_a_warning():
    X = np.random.default_rng(0).standard_normal((30, 20))
    with pytest.warns(UserWarning, match=r"No component explains more than chance \(p = 0\.\d+\); one is kept"):
        assert GPower("auto", cardinality=[4] * 3).fit(X).components_.shape == (1, 20)


def test_a_table_without_variance_has_one_component():
    with pytest.warns(UserWarning, match="No component|No column varies|all zero"):
        assert GPower("auto", cardinality=2).fit(np.ones((10, 4))).components_.shape == (1, 4)


@pytest.mark.parametrize(
    ("X", "options", "match"),
    [
        (np.eye(5), {"covariance": "precomputed"}, "Permuting needs the samples"),
        (sp.csr_array((20_000, 20_000)), {}, "X is sparse, of 4e\\+08 entries, more than 2.5e\\+08: give fewer"),
        (np.eye(5), {"n_permutations": 10}, "=10 give p-values down to 0.18, above level=0.05; use at least 39"),
        (np.eye(5), {"level": 2}, "level=2: a share between 0 and 1"),
        (np.eye(5), {"blocks": [1, 2]}, "blocks has 2 entries, but there are 5 variables"),
    ],
)
def test_data_that_cannot_be_tested_are_refused(X, options, match):
    with pytest.raises(ValueError, match=match):
        component_test(X, 2, cardinality=2, **options)


@pytest.mark.parametrize("kind", ["sparse", "C", "F"])
def test_a_sparse_table_and_a_small_store_are_as_good_as_a_dense_table(kind, tmp_path):
    X = np.where(np.random.RandomState(0).uniform(size=(40, 30)) < 0.7, 0, load_planted_expression().X[:40, :30])
    np.save(tmp_path / "x.npy", np.array(X, order="F" if kind == "F" else "C"))
    tables = X, sp.csr_array(X) if kind == "sparse" else tmp_path / "x.npy"
    expected, found = (component_test(table, 2, cardinality=4, n_permutations=39) for table in tables)
    np.testing.assert_allclose(found.permuted_variance, expected.permuted_variance, rtol=1e-5)


def with_holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).uniform(size=X.shape) < share, np.nan, X)


def test_imputed_values_are_not_taken_for_a_component():
    tables = (with_holes(np.random.default_rng(seed).standard_normal((60, 100)), 0.2, seed) for seed in range(6))
    asked = {"cardinality": 10, "missing": "impute", "n_permutations": 39}
    assert sum(component_test(X, 3, **asked).n_components > 0 for X in tables) <= 2


def test_components_of_a_table_with_holes_are_counted():
    X = with_holes(load_planted_expression().X, 0.05)
    model = GPower("auto", cardinality=[6] * 4, missing="impute").fit(X)
    assert len(certify(model, X)) == len(model.components_) == 3
    assert prepare_operator(model, X).shape == X.shape


def test_options_that_auto_refuses():
    X = load_planted_expression().X
    with pytest.raises(ValueError, match="takes no sample_weight"):
        GPower("auto", cardinality=6).fit(X, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="n_components='many'"):
        GPower("many", cardinality=6).fit(X)


def test_a_large_store_is_tested_on_some_samples(tmp_path):
    """The test uses as many samples as can be permuted; it finds planted components and none in noise."""
    planted = make_planted_components(2500, 30, (6, 5), (3.0, 2.0), random_state=0).X
    for X, count in ((planted, 2), (np.random.default_rng(0).standard_normal(planted.shape), 0)):
        np.save(tmp_path / "x.npy", X)
        with pytest.warns(UserWarning, match="1000 of its 2500 samples, drawn at random, are permuted"):
            test = component_test(tmp_path / "x.npy", 3, cardinality=6, n_permutations=39, memory_limit=1_200_000)
        assert test.n_components == count
        assert test.degrees_of_freedom == 999
        whole = component_test(X, 3, cardinality=6, n_permutations=39)
        np.testing.assert_allclose(test.pca_variance, whole.pca_variance, rtol=0.15)
    np.save(tmp_path / "x.npy", planted)
    with pytest.warns(UserWarning, match="1000 of its 2500 samples"):
        model = GPower("auto", cardinality=[6] * 3, memory_limit=1_200_000).fit(tmp_path / "x.npy")
    assert len(model.components_) == 2
    with pytest.raises(ValueError, match="Permuting needs the table in the memory of this machine; X is in blocks"):
        component_test(tmp_path / "x.npy", 3, cardinality=6, memory_limit=1_100_000)  # too few samples
