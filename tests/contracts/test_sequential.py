"""The sequential solver: each component is first-order optimal for its own explicitly deflated matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gpower import GPower, Solver
from gpower.operators import as_operator
from gpower.problem.deflation import DEFLATION_RULES
from gpower.solvers import sequential, sketch
from gpower.solvers.fit_specification import ExactCardinality, FitSpec, L1BoundSpec
from gpower.solvers.sequential import solve_all_components
from gpower.validation.params import make_random_state
from gpower.validation.prepare import read_estimator_input


def factors(seed, shape=(60, 240), count=6, size=8):
    """Return noise with a few sparse factors of decreasing strength."""
    rng = np.random.default_rng(seed)
    L = np.zeros((count, shape[1]))
    for j in range(count):
        L[j, rng.choice(shape[1], size, replace=False)] = (3 - 2 * j / count) * rng.choice([-1.0, 1.0], size)
    return rng.standard_normal((shape[0], count)) @ L + rng.standard_normal(shape)


def deflate_explicitly(A, Z, rule):
    """Return the deflated matrix of each component by explicit arithmetic."""
    left, removed = [A], []
    for z in Z.T[:-1]:
        M = left[-1]
        if rule == "schur":
            y = M @ z
            x = y / np.linalg.norm(y)
            left.append(M - np.outer(x, x @ M))
            continue
        if rule == "orthogonalized":
            for u in removed:
                z = z - u * (u @ z)
            z = z / np.linalg.norm(z)
            removed.append(z)
        left.append(M - np.outer(M @ z, z))
    return left


def make_operator(kind, A):
    """Return the operator of a matrix that is centred or need not be."""
    data = {"dense": A, "sparse": sp.csr_array(A), "covariance": A.T @ A}[kind]
    return as_operator(data, center=False, covariance=kind == "covariance", reduce_tall=False)[0]


EACH_RULE = pytest.mark.parametrize("rule", DEFLATION_RULES)
EACH_KIND = pytest.mark.parametrize("kind", ["dense", "sparse", "covariance"])


@EACH_RULE
@EACH_KIND
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_deflated_correlations_are_those_of_the_deflated_matrices(rule, kind, seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** (seed % 19 - 9)
    A = scale * rng.standard_normal((20, 9))
    Z, ends = (
        np.where(rng.random((9, 4)) < 0.5, rng.standard_normal((9, 4)), 0) + 1e-3 * np.eye(9)[:, :4] for _ in "ab"
    )
    Z /= np.linalg.norm(Z, axis=0)
    C, norms = DEFLATION_RULES[rule].deflated_correlations(make_operator(kind, A), Z, ends)
    for j, M in enumerate(deflate_explicitly(A, Z, rule)):
        x = M @ ends[:, j]
        np.testing.assert_allclose(C[:, j], M.T @ (x / np.linalg.norm(x)), atol=1e-7 * np.abs(C).max())
        outside = ~Z[:, : j + 1].any(axis=1)
        np.testing.assert_allclose(norms[outside, j], np.linalg.norm(M, axis=0)[outside], rtol=1e-6, atol=1e-6 * scale)


@EACH_RULE
@pytest.mark.parametrize("positive", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6)
def test_exact_components_are_fixed_points_of_the_whole(rule, positive, seed):
    X = factors(seed)
    model = GPower(4, cardinality=6, deflation=rule, positive=positive, solver=Solver("working_set"), tol=1e-12)
    A = X - X.mean(axis=0)
    found = solve_in_order_of_extraction(model, X)
    for z, M in zip(found.T, deflate_explicitly(A, found, rule), strict=True):
        c = M.T @ (M @ z)
        c = c if positive else np.abs(c)
        smallest, rest = c[z != 0].min(), c[z == 0].max()
        assert smallest >= rest * (1 - 1e-6)


def solve_in_order_of_extraction(model, X):
    """Return the loadings in the order of extraction, (n, m)."""
    table = read_estimator_input(model, X)
    prepared = table.prepare(None, table.build_fit_specs(), reduce=False)
    return solve_all_components(prepared.operator, prepared.fit_spec, make_random_state(None)).Z


@pytest.mark.parametrize("rule", ["schur", "projection"])
@pytest.mark.parametrize("penalty", ["l0", "l1"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6)
def test_penalised_components_are_fixed_points_of_the_whole(rule, penalty, seed):
    X, gamma = factors(seed), {"l0": 0.05, "l1": 0.3}[penalty]
    solver = Solver("working_set", refit=None)
    model = GPower(3, gamma=gamma, penalty=penalty, deflation=rule, solver=solver, tol=1e-13, max_iter=20000)
    found = solve_in_order_of_extraction(model, X)
    model.fit(X)
    for z, M in zip(found.T, deflate_explicitly(X - X.mean(axis=0), found, rule), strict=True):
        level = model.gamma_[np.argmax(np.abs(model.components_ @ z))]  # those of a model are sorted
        x = M @ z
        c = M.T @ (x / np.linalg.norm(x))
        active = c**2 > level if penalty == "l0" else np.abs(c) > level
        step = np.where(active, c if penalty == "l0" else np.sign(c) * (np.abs(c) - level), 0)
        np.testing.assert_allclose(np.abs(z), np.abs(step) / np.linalg.norm(step), atol=2e-3)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rounds_are_few_and_the_components_are_those_found_one_by_one(kind, monkeypatch):
    rounds, run_round = [], sequential._run_round
    monkeypatch.setattr(sequential, "_run_round", lambda *args: rounds.append(1) or run_round(*args))
    X = factors(3, (120, 2500), 12, 10)
    table = X if kind == "dense" else sp.csr_array(np.where(np.abs(X) > 1, X, 0))
    model = GPower(12, cardinality=10).fit(table)
    assert 1 <= len(rounds) <= 6
    assert model.n_passes_ < 25
    monkeypatch.setattr(FitSpec, "should_share_rounds", lambda *_: False)  # one after the other
    alone = GPower(12, cardinality=10).fit(table)
    assert alone.n_passes_ > 3 * model.n_passes_
    share, other = (each.explained_variance_ratio_.sum() for each in (model, alone))
    assert share > 0.98 * other


def test_an_interrupted_round_is_resumed(tmp_path, monkeypatch):
    X, path = factors(5, (120, 2500), 12, 10), tmp_path / "cut.npz"
    whole = GPower(8, cardinality=10, checkpoint=tmp_path / "whole.npz").fit(X)

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sequential, "_run_round", stop)
        with pytest.raises(KeyboardInterrupt):
            GPower(8, cardinality=10, checkpoint=path).fit(X)
    resumed = GPower(8, cardinality=10, checkpoint=path, resume=True).fit(X)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    assert resumed.n_passes_ < whole.n_passes_


@pytest.mark.parametrize("options", [{"cardinality": 5}, {"gamma": 0.1}, {"cardinality": 5, "method": "block"}])
def test_components_come_by_decreasing_variance(options):
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((30, 12)) @ np.diag(np.linspace(1, 2, 12))
        model = GPower(4, **options).fit(X)
        assert np.all(np.diff(model.explained_variance_) <= 1e-9 * model.explained_variance_[0])


def test_components_of_their_own_cardinality_keep_their_places():
    assert GPower(3, cardinality=[2, 9, 4]).fit(factors(1)).cardinality_.tolist() == [2, 9, 4]


@EACH_KIND
def test_a_sharpened_sketch_explains_more(kind):
    X = factors(3, (400, 300), count=3)
    z = np.linalg.eigh(X.T @ X)[1][:, -60:]  # more components than a sketch of some forty rows can represent
    drawn = sketch.make_sketch(make_operator(kind, X), 1, np.random.RandomState(0))
    shares = [np.array([each.compute_variance_share(v[:, None]) for v in z.T]) for each in (drawn, drawn.sharpen())]
    assert shares[0].max() <= 1 + 1e-5
    assert shares[0].sum() < shares[1].sum()
    assert shares[1][-3:].min() > 0.99


@pytest.mark.parametrize("shape", [(250, 900), (400, 400), (900, 300)])
@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_factors", [0, 5, 80])
def test_a_sketch_hides_at_most_twice_the_variance_that_it_estimates(shape, decay, n_factors):
    rng = np.random.default_rng([*shape, n_factors])
    noise = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -decay
    X = noise + rng.standard_normal((shape[0], n_factors)) @ rng.standard_normal((n_factors, shape[1]))
    operator = as_operator(X, reduce_tall=False)[0]
    drawn = sketch.make_sketch(operator, 3, np.random.RandomState(0))
    A, B = operator.columns(np.arange(shape[1])), drawn.B.astype(float)
    hidden = np.linalg.eigvalsh(A.T @ A / drawn.scale**2 - B.T @ B)[-1]
    assert drawn.hidden_variance / 4 < hidden < 2 * drawn.hidden_variance


@pytest.mark.parametrize("strength", [0.5, 5.0])
def test_the_sketch_is_screened_if_the_components_have_far_more_variance_than_it_hides(strength, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 1500))
    X[:, :20] += strength * rng.standard_normal((300, 1))
    screened = []
    find_candidates = sequential._find_candidates
    monkeypatch.setattr(
        sequential, "_find_candidates", lambda *args: screened.append(args[0].shape[0]) or find_candidates(*args)
    )
    model = GPower(1, cardinality=20).fit(X)
    assert screened == [300 if strength < 1 else 1 + sketch.OVERSAMPLING]
    assert np.array_equal(np.flatnonzero(model.components_[0]), np.arange(20)) or strength < 1


def test_a_module_is_found_though_columns_with_several_factors_are_longer_on_the_sketch():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((260, 1600))
    for _ in range(20):  # after standardisation columns with several factors have the least noise
        columns = 40 + rng.choice(1560, 300, replace=False)
        X[:, columns] += 2.5 * rng.standard_normal((260, 1)) * rng.choice([-1.0, 1.0], 300)
    X[:, :40] += 2 * rng.standard_normal((260, 1))
    model = GPower(1, cardinality=40, scale=True).fit(X)
    assert np.array_equal(np.flatnonzero(model.components_[0]), np.arange(40))


def test_noise_of_few_samples_is_distinguished_from_structure():
    X = np.random.default_rng(2).standard_normal((150, 2500))
    X -= X.mean(axis=0)
    total, left = 0.0, X
    for _ in range(5):  # one by one, each on the matrix deflated by the earlier ones
        one = GPower(1, cardinality=10, center=False).fit(left)
        y = left @ one.components_.T
        total += one.explained_variance_[0]
        left = left - y @ (y.T @ left) / (y.T @ y)
    assert GPower(5, cardinality=10).fit(X).explained_variance_.sum() > 0.99 * total


@given(seed=st.integers(0, 10**6))
@settings(max_examples=5)
def test_a_covariance_gives_the_components_of_its_data(seed):
    X = factors(seed, (900, 520), count=4)
    X -= X.mean(axis=0)
    model, of_covariance = GPower(4, cardinality=8), GPower(4, cardinality=8, covariance="precomputed")
    np.testing.assert_allclose(
        of_covariance.fit(X.T @ X / (len(X) - 1)).explained_variance_.sum(),
        model.fit(X).explained_variance_.sum(),
        rtol=1e-3,
    )


def test_components_with_most_columns_start_from_the_sketch(monkeypatch):
    X = factors(1, (80, 4000), count=3, size=1200)
    start_shapes, original = [], FitSpec.with_start_loadings
    monkeypatch.setattr(
        FitSpec, "with_start_loadings", lambda fit_spec, Z: start_shapes.append(Z.shape) or original(fit_spec, Z)
    )
    model = GPower(3, cardinality=1200).fit(X)
    assert start_shapes
    assert model.cardinality_.tolist() == [1200] * 3


@pytest.mark.parametrize("scale", [1e20, 3e7, 1e-12, 1e-25])
@pytest.mark.parametrize("options", [{"cardinality": 10}, {"gamma": 0.1}, {"cardinality": 10, "penalty": "l1"}])
def test_units_change_nothing(scale, options):
    X = factors(4, (250, 2000))  # large enough for starts from a sketch
    shares = [GPower(3, **options).fit(each).explained_variance_ratio_.sum() for each in (X, X * scale)]
    np.testing.assert_allclose(shares[1], shares[0], rtol=1e-3)


def test_what_a_sketch_hides_scales_with_the_matrix():
    X = np.random.default_rng(0).standard_normal((400, 600))
    X[:, :10] += 3 * np.random.default_rng(1).standard_normal((400, 1))
    hidden = []
    for scale in (2.0**-7, 1.0, 2.0**7):
        operator = as_operator(scale * X, reduce_tall=False)[0]
        drawn = sketch.make_sketch(operator, 2, np.random.RandomState(0))
        assert drawn.matrix.shape[0] < 400
        assert not drawn.unshared_norms_sq.any()  # a sketch shares all that it has
        hidden.append(drawn.hidden_variance * drawn.scale**2 / scale**2)
    np.testing.assert_allclose(hidden, hidden[1], rtol=1e-5)


def test_a_bound_on_the_loadings_has_one_start_unless_more_are_asked_for():
    operator = as_operator(factors(0))[0]
    for is_block in (False, True):
        assert L1BoundSpec(levels=(2.0,)).choose_n_starts(operator, is_block) == 1
        assert ExactCardinality(levels=(5,)).choose_n_starts(operator, is_block) > 1


@pytest.mark.parametrize(("cardinality", "share"), [(3, 0.98), (80, 0.955)])
def test_many_candidates_or_variables_do_not_leave_the_candidates_out(cardinality, share):
    shares, starts = [], {"n_init": 64, "solver": Solver(algorithm="full")}
    for seed in range(4):
        X = sp.random(400, 900, density=0.1, random_state=seed, format="csr").toarray()
        best = max(GPower(1, cardinality=cardinality, **each).fit(X).objective_[0] for each in ({}, starts))
        shares.append(GPower(1, cardinality=cardinality, n_init=200).fit(X).objective_[0] / best)
    assert np.mean(shares) > share  # far above the 0.96 and 0.93 without candidates
