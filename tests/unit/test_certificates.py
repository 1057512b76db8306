"""Certificates of fitted models: the certified objective, its matrix, and the errors."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example
from hypothesis import given as drawn
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.enumeration import find_best_variance
from tests.memory import measure_peak_memory
from tests.planted_data import make_planted_components

from gpower import GPower, best_subset, certify, certify_total, sparsity_path
from gpower.certificates import certificate as certificate_module
from gpower.certificates import certify_components
from gpower.certificates.arguments import prepare_certificate_data
from gpower.certificates.disjoint_supports import SupportList, list_supports
from gpower.certificates.joint import certify_joint_variance
from gpower.certificates.row_bound import RowDual
from gpower.datasets import gaussian, load_pitprops, load_planted_expression
from gpower.operators import as_operator
from gpower.problem.deflation import DEFLATION_RULES

PITPROPS = load_pitprops().correlation


@drawn(seed=st.integers(0, 10**6), rule=st.sampled_from(sorted(DEFLATION_RULES)))
@example(seed=25, rule="schur")
def test_a_component_is_certified_on_the_matrix_that_it_came_from_whatever_its_place(seed, rule):
    X = np.random.default_rng(seed).standard_normal((15, 10))
    model = GPower(6, cardinality=3, deflation=rule).fit(X)
    found, operator = certify(model, X, max_time=0), as_operator(X)[0]
    np.testing.assert_allclose([each.value for each in found], model.objective_, rtol=1e-6)
    for j in np.argsort(model.extraction_order_):
        z, left = model.components_[j], operator.gram(np.arange(10))
        assert found[j].value == pytest.approx(z @ left @ z)
        assert found[j].upper_bound >= find_best_variance(left, 3) * (1 - 1e-9)
        operator = DEFLATION_RULES[rule].remove(operator, z)


def test_the_order_of_extraction_is_kept_with_a_model_and_with_a_path(reload):
    X = np.random.default_rng(25).standard_normal((15, 10))
    model = GPower(6, cardinality=3).fit(X)
    assert np.any(np.diff(model.extraction_order_) < 0)  # a table whose components change their order
    path = sparsity_path(X, n_components=6, cardinalities=[2, 3])
    again = sparsity_path(X, n_components=6, cardinalities=[2, 3], resume=path)
    for kept in (reload(model), *path, *again):
        values = [certificate.value for certificate in certify(kept, X, max_time=0)]
        np.testing.assert_allclose(values, kept.objective_, rtol=1e-6)


def test_loadings_alone_and_joint_components_are_removed_in_their_order():
    X = np.random.default_rng(25).standard_normal((15, 10))
    for options in ({"method": "block"}, {"constraint": "orthogonal"}):
        model = GPower(6, cardinality=3, **options).fit(X)
        model.extraction_order_ = np.arange(6)[::-1]
        alone = certify(model.components_, X, max_time=0)
        assert [each.value for each in certify(model, X, max_time=0)] == [each.value for each in alone]


def test_a_poor_component_has_a_low_ratio_and_its_bound_holds():
    z = np.isin(np.arange(13), [3, 4, 10]) / np.sqrt(3)
    certificate = certify(z, PITPROPS, covariance="precomputed")[0]
    best = find_best_variance(PITPROPS, 3)
    assert certificate.value < 0.7 * best
    assert not certificate.optimal
    assert best <= certificate.upper_bound <= 1.01 * best
    assert certificate.upper_bound == pytest.approx(min(bound.value for bound in certificate.bounds), rel=1e-12)
    assert certificate.ratio == pytest.approx(certificate.value / certificate.upper_bound)
    assert "not within the tolerance" in str(certificate)
    assert str(certificate).startswith("3 variables: ")
    assert str(certify(np.eye(13)[:1], PITPROPS, covariance="precomputed")[0]).startswith("1 variable: ")


def test_data_sparse_data_and_their_covariance_agree():
    X = make_planted_components(60, 25, [4], [6.0], random_state=0).X
    X[np.abs(X) < 0.5] = 0
    A = X - X.mean(axis=0)
    z = GPower(1, cardinality=4).fit(X).components_
    best = find_best_variance(A.T @ A, 4)
    found = [certify(z, table)[0] for table in (X, sp.csr_array(X), X.astype(np.float32))]
    for certificate in [*found, certify(z, A.T @ A, covariance="precomputed")[0]]:
        assert certificate.value == pytest.approx(found[0].value, rel=1e-5)
        assert best * (1 - 1e-5) <= certificate.upper_bound <= best * 1.01


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_data_in_double_precision_are_read_where_they_are(container):
    X = container(gaussian(1000, 10_000, random_state=0))  # ten times as many entries as sparse sums read at once
    assert measure_peak_memory(lambda: prepare_certificate_data(X, None)) < 0.5 * 8 * X.size


def test_data_read_in_place_are_not_written_to():
    X = gaussian(30, 8, random_state=0)
    for options, given in (({}, X), ({"scale": True}, X), ({"covariance": "precomputed"}, np.cov(X.T))):
        given.setflags(write=False)
        model = GPower(2, cardinality=3, **options).fit(given)
        assert all(certificate.optimal for certificate in certify(model, given, tol=0.1))


def test_a_covariance_in_single_precision_and_one_that_is_a_little_indefinite_are_certified():
    rounded = PITPROPS.astype(np.float32)
    model = GPower(1, cardinality=4, covariance="precomputed").fit(rounded)
    certificate = certify(model, rounded)[0]
    assert certificate.value <= certificate.upper_bound <= 1.01 * certificate.value
    A = gaussian(4, 9, random_state=0)
    S = A.T @ A - 1e-9 * np.eye(9)
    best = find_best_variance(S, 3)
    z = GPower(1, cardinality=3, covariance="precomputed").fit(S).components_
    certificate = certify(z, S, covariance="precomputed")[0]
    assert certificate.value == pytest.approx(best, rel=1e-9)
    assert certificate.upper_bound >= best * (1 - 1e-12)


def test_scaling_and_weights_of_the_fit_are_those_of_the_certificate():
    X = gaussian(30, 8, random_state=1) * np.arange(1, 9)
    weight = np.arange(30) % 3
    model = GPower(1, cardinality=3, scale=True).fit(X, sample_weight=weight)
    certificate = certify(model, X, sample_weight=weight)[0]
    assert certificate.value == pytest.approx(model.objective_[0])
    D = X - weight @ X / weight.sum()
    spread = np.sqrt(weight @ D**2 / (weight.sum() - weight @ weight / weight.sum()))
    A = np.sqrt(weight)[:, None] * D / spread
    assert certificate.upper_bound >= find_best_variance(A.T @ A, 3) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_l0_penalty_is_certified_too(seed):
    X = gaussian(20, 10, random_state=seed)
    model = GPower(2, gamma=0.3, deflation="projection").fit(X)
    found, operator = certify(model, X), as_operator(X)[0]
    for j in np.argsort(model.extraction_order_):
        certificate, gamma, S = found[j], model.gamma_[j], operator.gram(np.arange(10))
        best = max(find_best_variance(S, k) - gamma * k for k in range(1, 11))
        assert certificate.gamma == gamma
        assert certificate.objective == pytest.approx(model.objective_[j], rel=1e-6)
        assert certificate.objective_bound >= best * (1 - 1e-12)
        assert certificate.objective_gap < 0.3
        operator = DEFLATION_RULES["projection"].remove(operator, model.components_[j])


def test_a_strong_factor_makes_the_penalized_solution_provably_the_best():
    planted = make_planted_components(60, 40, [5], [12.0], random_state=0)
    certificate = certify(GPower(1, gamma=0.1).fit(planted.X), planted.X)[0]
    assert certificate.objective_gap < 1e-6


def test_without_time_the_cheapest_bound_is_still_there():
    model = GPower(2, cardinality=5, covariance="precomputed").fit(PITPROPS)
    for certificate in certify(model, PITPROPS, max_time=0):
        assert [bound.method for bound in certificate.bounds] == ["trace"]
        assert np.isfinite(certificate.upper_bound)


@pytest.mark.parametrize("call", [1, 7])
def test_ctrl_c_returns_the_bounds_so_far(interrupt, call):
    X = gaussian(20, 25, random_state=0)
    model = GPower(2, cardinality=6).fit(X)
    whole = certify(model, X)
    calls = interrupt(RowDual, "evaluate", call)
    first, second = certify(model, X)
    assert len(calls) == call
    assert whole[0].upper_bound <= first.upper_bound < np.inf
    assert first.bounds[-1].method == "rows"
    assert [bound.method for bound in second.bounds] == ["trace"]


def test_components_beyond_the_rank_have_nothing_left_to_explain():
    X = np.outer(np.arange(5.0), [1.0, 2.0, 0.0, 1.0])
    first, second = certify_components(as_operator(X)[0], np.array([[1, 2, 0, 1], [1, 0, 0, 0.0]]).T, deflation="schur")
    assert first.optimal
    assert (second.value, second.upper_bound, second.gap) == (0.0, 0.0, 0.0)


def test_a_zero_component_is_far_from_everything():
    certificate = certify(np.zeros(13), PITPROPS, covariance="precomputed")[0]
    assert (certificate.value, certificate.gap, certificate.cardinality) == (0.0, np.inf, 1)
    assert certificate.upper_bound == pytest.approx(1.0)
    assert certificate.ratio == 0


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.ones((1, 12)), PITPROPS), {"covariance": "precomputed"}, "13 variables"),
        ((np.full((1, 13), np.nan), PITPROPS), {"covariance": "precomputed"}, "NaN or infinite loadings"),
        ((np.ones(3), np.array([[1, 2, 0], [0, 1, 0], [0, 0, 1.0]])), {"covariance": "precomputed"}, "not symmetric"),
        ((np.ones(2), np.array([[1, np.nan], [0, 1.0]])), {}, "NaN"),
        ((np.ones(13), PITPROPS), {"covariance": "cov"}, "covariance='cov' is not known"),
        (("abc", PITPROPS), {"covariance": "precomputed"}, "has no loadings; pass a fitted model or an array"),
        ((object(), PITPROPS), {"covariance": "precomputed"}, "has no loadings"),
        ((["a"] * 13, PITPROPS), {"covariance": "precomputed"}, "has no loadings"),
        ((GPower(2), PITPROPS), {"covariance": "precomputed"}, "This GPower instance is not fitted yet"),
        (
            (np.eye(1, 3), np.ones((5, 3))),
            {"sample_weight": ["a"] * 5},
            r"sample_weight=\['a', .* does not hold numbers",
        ),
        ((np.ones(13), PITPROPS), {"covariance": "precomputed", "tol": -1}, "tol=-1"),
        ((np.ones(13), PITPROPS), {"covariance": "precomputed", "deflation": "hotelling"}, "deflation='hotelling'"),
        ((np.ones(2), sp.eye_array(2).tocsr()), {"covariance": "precomputed"}, "takes a dense matrix"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        certify(*arguments, **options)


def test_missing_values_are_filled_as_in_the_fit_or_refused():
    X = load_planted_expression().X[:, :20].copy()
    X[3, 4] = X[9, 0] = np.nan
    model = GPower(2, cardinality=4, missing="impute", certify=True).fit(X)
    values = [each.value for each in certify(model, X)]
    np.testing.assert_allclose(values, model.objective_, rtol=1e-6)
    assert certify_total(model, X).upper_bound == pytest.approx(model.total_upper_bound_, rel=1e-3)
    for asked in (certify, certify_total):
        with pytest.raises(ValueError, match=r"Drop those rows or columns, or fill them, as missing='impute' does"):
            asked(model.components_, X)


def test_l1_variance_is_refused_with_a_remedy():
    X = gaussian(20, 5, random_state=0)
    model = GPower(1, cardinality=2, variance="l1").fit(X)
    with pytest.raises(ValueError, match=r"model\.components_"):
        certify(model, X)
    assert certify(model.components_, X)[0].upper_bound > 0


@pytest.mark.filterwarnings("ignore")
class TestRounding:
    def test_no_penalty_at_all(self):
        X = np.random.default_rng(0).standard_normal((20, 5))
        model = GPower(1, gamma=0, certify=True).fit(X)
        assert model.optimality_ratio_[0] == pytest.approx(1)

    @pytest.mark.parametrize("seed", [121, 129])
    def test_deflated_sparse_data_with_offsets_have_a_valid_covariance(self, seed):
        rng = np.random.default_rng(seed)
        X = sp.csr_array(rng.standard_normal((3, 6)) + rng.choice([0.0, 1e3, 1e4], 6))
        proofs = certify(GPower(3, cardinality=3, deflation="schur").fit(X), X)
        assert all(proof.upper_bound >= proof.value for proof in proofs)


class TestEstimator:
    def test_stores_what_certify_proves(self):
        X = np.random.default_rng(25).standard_normal((15, 10))  # a table whose components change their order
        model = GPower(6, cardinality=3, certify=True).fit(X)
        np.testing.assert_allclose(model.upper_bound_, [proof.upper_bound for proof in certify(model, X)], rtol=1e-3)
        np.testing.assert_allclose(model.optimality_ratio_, model.objective_ / model.upper_bound_, rtol=1e-9)
        assert np.all(model.upper_bound_ >= model.objective_ * (1 - 1e-9))
        assert model.optimality_ratio_.min() > 0.999
        assert not hasattr(GPower(6, cardinality=3).fit(X), "upper_bound_")

    def test_bounds_of_an_earlier_fit_do_not_remain(self):
        X = np.random.default_rng(0).standard_normal((30, 8))
        model = GPower(2, cardinality=3, certify=True).fit(X)
        assert hasattr(model.set_params(n_components=1).fit(X), "upper_bound_")
        assert not hasattr(model, "total_upper_bound_")
        model.set_params(certify=False).fit(X)
        assert not [name for name in vars(model) if "bound_" in name or "optimality" in name]

    def test_a_stream_is_certified_as_the_whole(self):
        X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
        model = GPower(1, cardinality=3, certify=True)
        for batch in np.split(X, 4):
            model.partial_fit(batch)
        whole = GPower(1, cardinality=3, certify=True).fit(X)
        np.testing.assert_allclose(model.upper_bound_, whole.upper_bound_, rtol=1e-4)

    def test_a_matrix_that_is_not_in_memory_is_refused(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 50)))
        with pytest.raises(ValueError, match=r"needs the matrix in memory; .* takes 8e-06 GB"):
            GPower(1, cardinality=3, certify=True, memory_limit=20_000).fit(tmp_path / "x.npy")
        found = GPower(1, cardinality=3, certify=True).fit(tmp_path / "x.npy")  # small enough to be read into memory
        wanted = GPower(1, cardinality=3, certify=True).fit(np.load(tmp_path / "x.npy"))
        np.testing.assert_allclose(found.upper_bound_, wanted.upper_bound_)

    def test_constant_data_leave_nothing_to_prove(self):
        with pytest.warns(Warning, match="No column varies"):
            model = GPower(1, cardinality=1, certify=True).fit(np.ones((5, 3)))
        np.testing.assert_array_equal(model.optimality_ratio_, [1.0])

    def test_models_that_cannot_be_certified_are_refused_before_the_fit(self):
        with pytest.raises(ValueError, match="certify='yes'"):
            GPower(1, certify="yes").fit(np.eye(4))
        with pytest.raises(ValueError, match="certify=True excludes variance='l1'"):
            GPower(1, certify=True, variance="l1").fit(np.eye(4))


def test_the_total_of_a_pipeline_is_that_of_its_model_on_the_transformed_data():
    X = np.random.default_rng(0).standard_normal((30, 6)) * np.arange(1, 7)
    pipeline = make_pipeline(StandardScaler(), GPower(2, cardinality=2)).fit(X)
    total, expected = certify_total(pipeline, X), certify_total(pipeline[-1], StandardScaler().fit_transform(X))
    assert (total.value, total.upper_bound) == (expected.value, expected.upper_bound)


@pytest.mark.parametrize("deflation", ["schur", "projection", "orthogonalized"])
@pytest.mark.parametrize("seed", range(4))
def test_loadings_on_columns_of_zeros_explain_nothing(seed, deflation):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rng.integers(2, 9), 9))
    X[:, 2:] = 0
    Z = np.zeros((3, 9))
    Z[:, 2:] = rng.standard_normal((3, 7))
    Z[1, 0] = 1.0
    for table, covariance in ((X, None), (X.T @ X, "precomputed")):
        first, second, third = certify(Z, table, covariance=covariance, deflation=deflation)
        A = X - X.mean(axis=0) if covariance is None else X
        assert first.value == 0
        assert first.upper_bound >= find_best_variance(A.T @ A, 2) * (1 - 1e-9)
        assert second.value == pytest.approx(np.sum((A @ Z[1] / np.linalg.norm(Z[1])) ** 2))
        assert third.value == 0 or deflation != "schur"
        assert third.upper_bound >= third.value


@pytest.mark.parametrize(
    ("constant", "covariance", "message"),
    [
        (np.ones((5, 3)), None, "Every column of X is constant: no component explains any variance"),
        (np.zeros((3, 3)), "precomputed", "The covariance is zero: no component explains any variance"),
    ],
)
def test_data_without_variance_cannot_be_certified(constant, covariance, message):
    with pytest.raises(ValueError, match=message):
        certify(np.eye(3)[:1], constant, covariance=covariance)
    with pytest.raises(ValueError, match=message):
        best_subset(constant, cardinality=1, covariance=covariance)


def test_a_callback_is_called_once_in_each_interval(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(certificate_module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    interval = certificate_module.CALLBACK_INTERVAL_SECONDS
    clock = certificate_module.Clock(
        100 * interval, callback=lambda: calls.append(now[0]), start_time=0.0, last_callback_time=0.0
    )
    for now[0] in (0.0, 0.5 * interval, 0.9 * interval):
        assert not clock.is_expired
    assert not calls
    now[0] = 1.5 * interval
    assert not any(clock.is_expired for _ in range(3))
    assert calls == [1.5 * interval]
    now[0] = 101 * interval
    assert clock.is_expired


def test_no_support_is_worse_than_any_support():
    none = SupportList(np.zeros(0), np.zeros(0, np.uint64))
    assert none.best_value == -np.inf
    pairs = list_supports(np.diag([3.0, 2.0, 1.0]), 2, certificate_module.Clock(60.0))
    assert pairs.best_value == 3.0
    assert pairs.without_variables(np.uint64(0b110)).best_value == -np.inf  # every pair has variable 1 or 2


def test_data_are_centred_again_if_any_mean_is_not_zero():
    X = np.random.default_rng(0).standard_normal((20, 4)) + [0.0, 3.0, -2.0, 1.0]
    X[:, 0] -= X[:, 0].mean()
    for mean in (np.where(np.arange(4) == 0, 0.0, X.mean(axis=0)), np.zeros(4)):
        model = SimpleNamespace(components_=np.eye(1, 4, 1), mean_=mean)
        assert certify(model, X)[0].value == pytest.approx(np.sum((X[:, 1] - mean[1]) ** 2))


@pytest.mark.parametrize(
    ("constraint", "method", "exact"), [("orthogonal", "eigenvalues", 25 + 16), ("disjoint", "trace", 25 + 16 + 9 + 4)]
)
def test_bounds_on_several_components_exceed_exact_sums_by_rounding_alone(constraint, method, exact):
    A = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])  # the eigenvalues of its covariance are whole numbers
    Z = np.eye(5)[:, [0, 4]]
    operator, _ = as_operator(A, center=False)
    found = certify_joint_variance(operator, Z, cardinality=[2, 2], constraint=constraint, tol=0.0, max_time=60.0)
    (bound,) = (each.value for each in found.bounds if each.method == method)
    assert exact < bound <= exact * (1 + 1e-9)
