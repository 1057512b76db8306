"""One contract for every operator: its products are those of an explicit matrix A, built here with NumPy alone.

A case pairs an operator with that matrix and with its *frame*: the matrix that takes a representation of a
sample-space vector to its coordinates (the identity for data, A itself where only AᵀA is known).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from tests.stored_matrices import make_dask_matrix, stream

from gpower.operators import Covariance, DataMatrix, as_container, as_operator, data_matrix, deflated
from gpower.operators import base as operators_base
from gpower.operators.base import Operator
from gpower.operators.deflated import deflate_other_units
from gpower.operators.moments import MEAN_ROUNDING_IN_EPS, Moments
from gpower.operators.running_moments import RunningMoments, append_columns, compute_moments_by_part
from gpower.problem.deflation import DEFLATION_RULES

P, N = 15, 20
FEW, MANY = np.array([17, 2, 5]), np.array([3, 19, 0, 1, 8, 7, 4, 12, 10, 15, 6, 9, 2])
ALL = np.arange(N)


@dataclass
class Case:
    """An operator, the matrix that it represents, and the frame of its sample-space representations."""

    operator: Operator
    A: np.ndarray
    frame: np.ndarray

    @property
    def rtol(self):
        return 1e-10 if self.operator.dtype == np.float64 else 3e-5

    def close(self, found, expected):
        """Assert that two results agree to working precision, relative to the largest entry."""
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=self.rtol * max(1.0, np.max(np.abs(expected), initial=0))
        )

    def vectors(self, rows, m=3, seed=0):
        return np.random.default_rng(seed).standard_normal((rows, m)).astype(self.operator.dtype)

    def samples(self, m=3, seed=0):
        return self.vectors(self.operator.shape[0], m, seed)

    def few_rows(self, m=3):
        """Return coefficients of two variables, so that the products may gather those alone."""
        T = np.zeros((N, m), self.operator.dtype)
        T[[4, 16]] = self.vectors(2, m, seed=1)
        return T


def table(dtype=np.float64):
    """Return samples with offsets of a few standard deviations, a constant column and duplicated ones."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((P, N)) * rng.uniform(0.3, 3, N) + rng.uniform(-5, 5, N)
    X[:, 11] = X[:, 4]
    X[:, 13] = 0.1
    return X.astype(dtype)


def sparse_table():
    """Return a table of mostly zeros."""
    rng = np.random.default_rng(8)
    return np.where(rng.random((P, N)) < 0.3, rng.poisson(3, (P, N)) + 1.0, 0.0)


def weights():
    """Return sample weights, one of them zero."""
    w = np.random.default_rng(9).uniform(0.2, 3, P)
    w[3] = 0
    return w


def standardized(X, center=True, scale=False, sample_weight=None):
    """Compute A by its definition: √w (x − mean)/scale, dividing by Σw − Σw²/Σw."""
    X = np.asarray(X, np.float64)
    w = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    mean = w @ X / w.sum()
    spread = np.sqrt(w @ (X - mean) ** 2 / (w.sum() - w @ w / w.sum()))
    constant = np.ptp(X, axis=0) == 0
    A = X - mean if center else X
    if scale:
        A = A / np.where(constant, 1, spread)
    if center:
        A = np.where(constant, 0, A)
    return np.sqrt(w)[:, None] * A


def make_data_case(convert, X, **options):
    """Return the operator of a table in some container."""
    return Case(as_operator(convert(X), reduce_tall=False, **options)[0], standardized(X, **options), np.eye(P))


def make_covariance_case(dtype=np.float64):
    A = standardized(table())
    return Case(Covariance((A.T @ A).astype(dtype)), A, A)


WEIGHTED = {"sample_weight": weights()}
SCALED = {"scale": True} | WEIGHTED
BASES = {
    "dense": (np.asarray, table(), {}),
    "dense uncentred": (np.asarray, table(), {"center": False}),
    "dense scaled": (np.asarray, table(), {"scale": True}),
    "dense scaled uncentred": (np.asarray, table(), {"center": False, "scale": True}),
    "dense weighted uncentred": (np.asarray, table(), {"center": False} | WEIGHTED),
    "dense weighted scaled": (np.asarray, table(), SCALED),
    "Fortran": (np.asfortranarray, table(), {}),
    "float32": (np.asarray, table(np.float32), {}),
    "float32 weighted scaled": (np.asarray, table(np.float32), SCALED),
    "CSR": (sp.csr_array, sparse_table(), {}),
    "CSR uncentred": (sp.csr_array, sparse_table(), {"center": False}),
    "CSR weighted": (sp.csr_matrix, sparse_table(), WEIGHTED),
    "CSC": (sp.csc_array, sparse_table(), {}),
    "CSC weighted scaled": (sp.csc_matrix, sparse_table(), SCALED),
    "CSR float32": (sp.csr_array, sparse_table().astype(np.float32), {}),
    "streamed rows": (stream, table(), {}),
    "streamed columns weighted scaled": (partial(stream, axis=1), table(), SCALED),
    "streamed rows uncentred": (stream, table(), {"center": False}),
    "streamed float32": (stream, table(np.float32), {}),
    "streamed rows with little memory": (partial(stream, spare=512), table(), SCALED),
    "streamed CSR weighted scaled": (lambda X: stream(sp.csr_array(X)), sparse_table(), SCALED),
    "streamed CSC": (lambda X: stream(sp.csc_array(X), 1), sparse_table(), {}),
    "Dask rows weighted scaled": (make_dask_matrix, table(), SCALED),
    "Dask columns": (partial(make_dask_matrix, axis=1), table(), {}),
    "Dask rows with little memory": (partial(make_dask_matrix, spare=512), table(), SCALED),
    "Dask CSR float32": (partial(make_dask_matrix, wrap=sp.csr_matrix), sparse_table().astype(np.float32), {}),
    "covariance": None,
    "covariance float32": None,
}
DEFLATED = {
    f"{base} deflated by {rule} {count}": (base, rule, count)
    for base, counts in {
        "dense": (1, 2),
        "covariance": (1, 2),
        "dense weighted scaled": (2,),
        "float32": (2,),
        "CSR": (2,),
        "streamed rows with little memory": (2,),
        "streamed CSR weighted scaled": (2,),
        "Dask rows weighted scaled": (2,),
        "covariance float32": (2,),
    }.items()
    for rule in DEFLATION_RULES
    for count in counts
}
TAKEN = ["dense weighted scaled", "CSR", "covariance", *(name for name in DEFLATED if name.endswith("2"))]
NAMES = [*BASES, *DEFLATED, *(f"{name} taken" for name in TAKEN)]


def take(case, idx):
    A = case.A[:, idx]
    operator = case.operator.take(idx)
    return Case(operator, A, np.eye(P) if operator.has_samples else A)


def deflate(case, rule, count):
    """Return the implicit deflations of the paper with the explicitly deflated matrix."""
    rng = np.random.default_rng(10)
    operator, A, earlier = case.operator, case.A, np.zeros((N, 0))
    for number_of_loadings in (4, N)[:count]:  # one sparse component, one that overlaps it
        z = np.zeros(N)
        z[rng.permutation(N)[:number_of_loadings]] = rng.standard_normal(number_of_loadings)
        z /= np.linalg.norm(z)
        operator = DEFLATION_RULES[rule].remove(operator, z)
        if rule == "orthogonalized":
            z = z - earlier @ (earlier.T @ z)
            z /= np.linalg.norm(z)
            earlier = np.column_stack([earlier, z])
        y = A @ z
        A = A - np.outer(y / (y @ y), y @ A) if rule == "schur" else A - np.outer(y, z)
    return Case(operator, A, case.frame)


def build(name):
    """Return a case by its name."""
    if name.endswith(" taken"):
        return take(build(name.removesuffix(" taken")), ALL[::-1])
    if name in DEFLATED:
        base, rule, count = DEFLATED[name]
        return deflate(build(base), rule, count)
    if name.startswith("covariance"):
        return make_covariance_case(np.float32 if "32" in name else np.float64)
    convert, X, options = BASES[name]
    return make_data_case(convert, X, **options)


@pytest.fixture(params=NAMES)
def case(request):
    return build(request.param)


def test_combinations_of_columns_are_products_with_the_matrix(case):
    for T in (case.vectors(N), case.few_rows(), np.eye(N, dtype=case.operator.dtype)[:, MANY]):
        case.close(case.frame @ case.operator.combine(T), case.A @ T)
    case.close(case.frame @ case.operator.columns(MANY), case.A[:, MANY])
    nothing = case.operator.combine(np.zeros((N, 2), case.operator.dtype))
    np.testing.assert_array_equal(nothing, np.zeros((case.operator.shape[0], 2)))


def test_correlations_are_products_with_the_transpose(case):
    X = case.samples()
    case.close(case.operator.correlate(X), case.A.T @ (case.frame @ X))
    for T in (np.eye(N, dtype=case.operator.dtype), case.few_rows()):
        case.close(case.operator.correlate(case.operator.combine(T)), case.A.T @ (case.A @ T))


def test_inner_products_are_those_of_the_samples(case):
    operator, T, X, other = case.operator, case.vectors(N), case.samples(seed=2), case.samples(seed=3)
    Y, C = operator.combine(T), operator.correlate(X)
    case.close(operator.inner(X, Y, operator.correlate(Y)), C.T @ T)  # combine is the adjoint of correlate
    case.close(operator.inner(Y, X, C), T.T @ C)
    case.close(operator.squared_norms(X, C), np.sum((case.frame @ X) ** 2, axis=0))
    case.close(operator.squared_norms(X, C), np.diagonal(operator.inner(X, X, C)))
    case.close(operator.dual(X).T @ other, (case.frame @ X).T @ (case.frame @ other))


@pytest.mark.parametrize("idx", [FEW, MANY], ids=["few", "many"])
def test_gram_matrices_and_restrictions_are_those_of_the_columns(case, idx):
    case.close(case.operator.gram(idx), case.A[:, idx].T @ case.A[:, idx])
    idx = np.sort(idx)
    gram = case.A[:, idx].T @ case.A[:, idx]
    restriction = case.operator.restrict(idx)
    inner = restriction.operator
    case.close(inner.correlate(inner.combine(np.eye(len(idx), dtype=case.operator.dtype))), gram)
    X = inner.combine(case.vectors(len(idx)))
    C = inner.correlate(X)
    lifted = restriction.lift(X)
    whole = case.operator.correlate(lifted)
    case.close(whole[idx], C)
    case.close(case.operator.inner(lifted, lifted, whole), inner.inner(X, X, C))


def test_rows_and_inner_products_of_samples_are_those_of_the_matrix(case):
    if not case.operator.has_samples:
        return
    idx = np.array([0, 4, 5, 14])
    case.close(case.operator.get_rows(idx), case.A[idx])
    case.close(case.operator.sample_gram(np.sort(MANY)), case.A[:, MANY] @ case.A[:, MANY].T)


def test_norms_and_the_total_variance_are_those_of_the_matrix_and_are_remembered(case):
    case.close(case.operator.column_norms, np.linalg.norm(case.A, axis=0))
    assert case.operator.total_variance == pytest.approx(np.sum(case.A**2), rel=10 * case.rtol)
    assert count_passes(case.operator, lambda A: A.column_norms) == 0


def test_taken_columns_are_an_operator_of_their_own(case):
    part = take(case, FEW)
    assert part.operator.shape[1] == len(FEW)
    X = part.samples()
    case.close(part.operator.correlate(X), part.A.T @ (part.frame @ X))
    case.close(part.operator.column_norms, np.linalg.norm(part.A, axis=0))


def test_products_keep_the_type_of_the_data_and_change_none_of_their_inputs(case):
    operator, dtype, idx = case.operator, case.operator.dtype, FEW.copy()
    T, X, few = case.vectors(N), case.samples(), case.few_rows()
    C = operator.correlate(X)
    norms = operator.column_norms.copy()
    inputs = (T, X, C, few, idx)
    copies = [array.copy() for array in inputs]
    restriction, part = operator.restrict(np.sort(idx)), operator.take(idx)
    left = DEFLATION_RULES["projection"].remove(operator, T[:, 0] / np.linalg.norm(T[:, 0]))
    products = [
        *(operator.combine(T), operator.combine(few), C, operator.columns(idx), operator.gram(idx)),
        *(operator.column_norms, operator.inner(X, X, C), operator.squared_norms(X, C), operator.dual(X)),
        *(part, part.correlate(case.vectors(part.shape[0])), left.correlate(X)),
        *(restriction.operator, restriction.lift(restriction.operator.combine(case.vectors(len(idx))))),
    ]
    assert [product.dtype for product in products] == [dtype] * len(products)
    for array, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(operator.column_norms, norms)


@pytest.mark.parametrize("rule", DEFLATION_RULES)
@pytest.mark.parametrize("base", ["dense", "covariance"])
def test_a_deflated_matrix_has_nothing_left_of_the_component(rule, base):
    case, z = build(base), np.random.default_rng(3).standard_normal(N)
    z /= np.linalg.norm(z)
    left = DEFLATION_RULES[rule].remove(case.operator, z)
    assert np.max(np.abs(case.frame @ left.combine(z[:, None]))) <= 1e-12 * np.linalg.norm(case.A)
    assert DEFLATION_RULES[rule].remove(case.operator, np.zeros(N)) is case.operator
    twice = DEFLATION_RULES[rule].remove(left, z)
    np.testing.assert_allclose(twice.gram(ALL), left.gram(ALL), atol=1e-10)


@pytest.mark.parametrize("base", ["dense", "covariance"])
def test_removing_a_component_twice_leaves_the_orthogonalized_matrix_as_it_is(base):
    once = DEFLATION_RULES["orthogonalized"].remove(build(base).operator, np.eye(N)[:, 6])
    assert DEFLATION_RULES["orthogonalized"].remove(once, np.eye(N)[:, 6]) is once


# --- columns gathered once, and passes ------------------------------------------------------------------------------

SEQUENCE = [np.array([2, 5, 17]), np.array([2, 3, 5, 9, 17]), np.arange(1, 14), np.array([5, 9]), np.array([0, 18])]


def test_restrictions_that_follow_one_another_stay_exact(case):
    """Columns gathered for one restriction may be reused by the next, unchanged."""
    kept, operator = [], case.operator.with_column_cache()
    for idx in SEQUENCE:
        restriction = operator.restrict(idx)
        expected = case.A[:, idx].T @ case.A[:, idx]
        kept.append((restriction, idx, expected))
        case.close(operator.gram(idx), expected)
        case.close(operator.gram(idx[:2]), expected[:2, :2])
        recent = np.zeros((N, 2), operator.dtype)
        recent[idx[-2:]] = case.vectors(2, 2)
        for T in (recent, case.few_rows()):
            case.close(case.frame @ operator.combine(T), case.A @ T)
    for restriction, idx, expected in kept:
        identity = np.eye(len(idx), dtype=case.operator.dtype)
        case.close(restriction.operator.correlate(restriction.operator.combine(identity)), expected)
        lifted = restriction.lift(restriction.operator.combine(identity))
        case.close(case.frame @ lifted, case.A[:, idx])


def count_passes(operator, work):
    """Return how often an operator reads the matrix during some work, in shares of it."""
    before = operator.passes
    work(operator)
    return operator.passes - before


@pytest.mark.parametrize("name", ["dense", "CSR", "CSC weighted scaled", "dense deflated by schur 2", "covariance"])
def test_products_count_the_share_of_the_matrix_that_they_read(name):
    case = build(name)
    X = case.samples()
    few = len(FEW) / N
    shares = {
        "correlate": (lambda A: A.correlate(X), 1),
        "combine": (lambda A: A.combine(case.vectors(N)), 1),
        "combine a few": (lambda A: A.combine(case.few_rows()), 2 / N),
        "columns": (lambda A: A.columns(FEW), few),
        "gram": (lambda A: A.gram(FEW), few),
        "restrict": (lambda A: A.restrict(np.sort(FEW)), few),
        "take": (lambda A: A.take(FEW), few),
    }
    if name == "covariance":
        shares = {
            "correlate": (lambda A: A.correlate(X), 1),
            "correlate a few": (lambda A: A.correlate(case.few_rows()), 2 / N),
            "combine": (lambda A: A.combine(X), 0),
            "gram": (lambda A: A.gram(FEW), few**2),
        }
    counted = {each: count_passes(case.operator, work) for each, (work, _) in shares.items()}
    assert counted == pytest.approx({each: share for each, (_, share) in shares.items()})
    if "deflated" in name:
        assert case.operator.passes == case.operator.base.passes > 2


# --- the data as the user gave them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("reduce", [True, False])
def test_a_sparse_matrix_is_left_as_it_was(kind, reduce):
    X = kind(sparse_table())
    copies = X.data.copy(), X.indices.copy(), X.indptr.copy()
    operator, _ = as_operator(X, scale=True, sample_weight=weights(), reduce_tall=reduce)
    for rule in DEFLATION_RULES.values():
        left = rule.remove(rule.remove(operator, np.eye(N)[:, 1]), np.full(N, N**-0.5))
        for A in (operator, left):
            A.correlate(A.combine(np.ones((N, 2))))
            A.restrict(np.sort(MANY)).operator.correlate(A.restrict(np.sort(MANY)).operator.columns(np.arange(3)))
            A.gram(FEW), A.columns(MANY), A.column_norms, A.total_variance, A.take(FEW), A.take(ALL)
    for array, copy in zip((X.data, X.indices, X.indptr), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}, WEIGHTED])
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_data_are_left_as_they_were(options, reduce, order):
    X = np.array(np.tile(table(), (1 if "sample_weight" in options else 4, 1)) + 1e9, order=order)
    copy = X.copy()
    operator, _ = as_operator(X, reduce_tall=reduce, **options)
    operator.columns(MANY)
    for A in (operator, operator.take(ALL), operator.restrict(ALL).operator):
        A.combine(np.ones((N, 2)))
    np.testing.assert_array_equal(X, copy)


def test_ordinary_data_are_not_copied():
    X = table()
    assert as_operator(X)[0].X.A is X


def test_a_given_covariance_is_used_as_it_is():
    S = np.cov(table(), rowvar=False)
    operator, moments = as_operator(S, covariance=True)
    np.testing.assert_array_equal(operator.correlate(np.eye(N)), S)
    np.testing.assert_array_equal(moments.mean, np.zeros(N))
    np.testing.assert_array_equal(moments.scale, np.ones(N))


# --- tall data, offsets, constant columns ---------------------------------------------------------------------------


def tall_table(offset=0.0, dtype=np.float64):
    """Return sixty samples of six variables."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((60, 6)) @ np.diag([3, 2, 1, 1, 0.5, 0.5])
    X += rng.standard_normal((60, 1))
    return (X + offset).astype(dtype)


def gram_of(operator):
    return operator.correlate(operator.combine(np.eye(operator.shape[1], dtype=operator.dtype)))


CONTAINERS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "CSR array": sp.csr_array,
    "CSC matrix": sp.csc_matrix,
}
EACH_CONTAINER = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


@EACH_CONTAINER
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 1e-5)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("sample_weight", [None, np.linspace(0, 2, 60)], ids=["equal", "weighted"])
def test_tall_data_are_replaced_by_their_covariance(container, dtype, rtol, center, scale, sample_weight):
    options = {"center": center, "scale": scale, "sample_weight": sample_weight}
    X = tall_table(0.5, dtype)
    operator, _ = as_operator(container(X), **options)
    assert isinstance(operator, Covariance)
    assert operator.dtype == dtype
    A = standardized(X, **options)
    np.testing.assert_allclose(operator.S, A.T @ A, rtol=0, atol=rtol * np.sum(A**2))


def test_wide_data_and_tall_data_whose_samples_are_needed_stay_data():
    assert isinstance(as_operator(table())[0], DataMatrix)
    assert isinstance(as_operator(tall_table(), reduce_tall=False)[0], DataMatrix)


@EACH_CONTAINER
@pytest.mark.parametrize("X", [tall_table(), table()], ids=["tall", "wide"])
@pytest.mark.parametrize("reduce", [True, False], ids=["reduced", "as samples"])
@pytest.mark.parametrize(("scale", "weighted"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [1.0, 2.0**-20])
def test_a_large_offset_costs_no_digits(container, X, reduce, scale, weighted, size):
    # Powers of two keep the shifted numbers exact, so that the result is that of the unshifted table.
    X = size * np.round(X * 2**10) / 2**10
    offset = size * 2.0 ** (20 if sp.issparse(container(X)) else 30)
    options = {"scale": scale, "sample_weight": np.linspace(0.5, 2, len(X)) if weighted else None}
    expected = gram_of(as_operator(X, reduce_tall=False, **options)[0])
    operator, moments = as_operator(container(X + offset), reduce_tall=reduce, **options)
    np.testing.assert_allclose(gram_of(operator), expected, rtol=0, atol=1e-8 * np.max(expected))
    np.testing.assert_allclose(operator.column_norms, np.sqrt(np.diagonal(expected)), rtol=1e-8)
    mean = np.average(X, axis=0, weights=options["sample_weight"])
    np.testing.assert_allclose(moments.mean, mean + offset, rtol=1e-14)


@EACH_CONTAINER
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.05, 1.0], ids=["a few columns", "all columns"])
@pytest.mark.parametrize(("dtype", "offset", "rtol"), [(np.float64, 1e5, 1e-9), (np.float32, 1e3, 1e-4)])
def test_moments_far_from_zero_are_exact_even_where_the_first_sample_is_an_outlier(
    container, weighted, share, dtype, offset, rtol
):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((80, 60))
    X[:, : int(60 * share)] += offset
    X[0] *= 10  # the first sample is far from the others
    X = X.astype(dtype)
    weight = rng.uniform(0, 2, 80).astype(dtype) if weighted else None
    _, moments = as_operator(container(X), sample_weight=weight, reduce_tall=False)
    w = np.ones(80) if weight is None else weight.astype(np.float64)
    mean = w @ X.astype(np.float64) / w.sum()
    np.testing.assert_allclose(moments.mean, mean, rtol=rtol / 10, atol=rtol)
    np.testing.assert_allclose(moments.column_norms, np.sqrt(w @ (X.astype(np.float64) - mean) ** 2), rtol=rtol)


MASKED = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "CSR": sp.csr_array,
    "rows": stream,
    "columns": partial(stream, axis=1),
}
MASKS = [  # dtype, number of masked samples, their value and weight, the offset of the others, relative error
    *((np.float64, 1, 1e7, weight, offset, 1e-6) for weight in (0, 1e-20) for offset in (0, 1e4)),
    *((np.float32, 1, 1e7, weight, offset, 1e-3) for weight in (0, 1e-20) for offset in (0, 1e4)),
    *((np.float64, 40, value, 0, 0, 1e-6) for value in (1e6, 1e30, 1e160)),
    *((np.float32, 40, value, 0, 0, 1e-3) for value in (1e12, 1e25)),
]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("kind", "dtype", "count", "value", "weight", "offset", "rtol"),
    [(kind, *mask) for kind in MASKED for mask in MASKS if kind != "CSR" or mask[2] <= 1e7],
)
def test_samples_masked_by_their_weight_leave_no_trace(kind, dtype, count, value, weight, offset, rtol, center, scale):
    """Samples of weight zero have no effect, whatever their values."""
    options = {"center": center, "scale": scale, "reduce_tall": False}
    X = (np.random.default_rng(9).standard_normal((90, 7)) + offset).astype(dtype)
    if weight == 0:
        X[:, 2] = 0.3
    rest, expected = as_operator(X[count:].copy(), **options)
    X[:count] = value
    weights = np.where(np.arange(90) < count, weight, 1).astype(dtype)
    with np.errstate(over="ignore"):  # as a fit does
        operator, moments = as_operator(MASKED[kind](X), sample_weight=weights, **options)
    np.testing.assert_allclose(moments.mean, expected.mean, atol=rtol, rtol=1e-9 if dtype == np.float64 else 1e-6)
    np.testing.assert_allclose(moments.scale, expected.scale, rtol=rtol)
    if value == 1e6:
        np.testing.assert_allclose(gram_of(operator), gram_of(rest), atol=1e-8 * np.max(gram_of(rest)))
        np.testing.assert_allclose(operator.column_norms, rest.column_norms, rtol=1e-8, atol=1e-8)


@EACH_CONTAINER
@pytest.mark.parametrize("reduce", [True, False], ids=["reduced", "as samples"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -1e7 / 3])
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"scale": True, "sample_weight": np.linspace(0, 2, 60)}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_column_is_exactly_zero(container, reduce, constant, options, dtype):
    X = tall_table(dtype=dtype)
    X[:, [1, 4]] = constant
    operator, moments = as_operator(container(X), reduce_tall=reduce, **options)
    Y = np.random.default_rng(0).standard_normal((operator.shape[0], 2)).astype(dtype)
    for zeros in (
        operator.column_norms[[1, 4]],
        operator.correlate(Y)[[1, 4]],
        operator.gram(np.arange(6))[[1, 4]],
        operator.gram(np.arange(6))[:, [1, 4]],
    ):
        np.testing.assert_array_equal(zeros, np.zeros_like(zeros))
    assert np.all(operator.column_norms[[0, 2, 3, 5]] > 0)
    np.testing.assert_array_equal(moments.scale[[1, 4]], 1)
    np.testing.assert_allclose(moments.mean[[1, 4]], constant, rtol=1e-6)
    uncentred = as_operator(container(X), center=False, scale=True, reduce_tall=False)[0]
    np.testing.assert_allclose(uncentred.columns(np.array([1]))[:, 0], constant, rtol=1e-6)


def test_a_single_sample_is_all_zeros_once_centred():
    operator, _ = as_operator(table()[:1])
    np.testing.assert_array_equal(operator.correlate(np.ones((1, 1))), np.zeros((N, 1)))
    assert operator.total_variance == 0


@EACH_CONTAINER
def test_many_samples_in_single_precision_are_summed_without_drift(container):
    """Logarithms of counts repeat a few values, so that the rounding errors of a running float32 sum add up."""
    counts = np.random.default_rng(12).poisson([0.2, 1.0, 5.0], size=(100_000, 3))
    X = np.log1p(counts).astype(np.float32)
    A = standardized(X)
    operator, moments = as_operator(container(X))
    S = gram_of(operator)
    norms = np.linalg.norm(A, axis=0)
    np.testing.assert_allclose(moments.mean, X.mean(axis=0, dtype=np.float64), rtol=3e-5)
    np.testing.assert_allclose(operator.column_norms, norms, rtol=1e-4)
    np.testing.assert_allclose(S / np.outer(norms, norms), A.T @ A / np.outer(norms, norms), atol=1e-4)


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**20])
@pytest.mark.parametrize("rule", DEFLATION_RULES)
def test_norms_that_nearly_vanish_in_a_deflation_scale_with_the_matrix(scale, rule):
    rng = np.random.default_rng(0)
    A = np.outer(rng.standard_normal(P), rng.standard_normal(N)) + 1e-9 * rng.standard_normal((P, N))
    z = np.linalg.svd(A)[2][0]
    operator, _ = as_operator(scale * A, center=False, reduce_tall=False)
    deflated = DEFLATION_RULES[rule].remove(operator, z)
    expected = scale * np.linalg.norm(A - np.outer(A @ z, z), axis=0)
    np.testing.assert_allclose(deflated.column_norms, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "covariance"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_matrix_without_the_other_units_keeps_what_is_orthogonal_to_them(kind, scale):
    A = scale * standardized(table())
    units = np.linalg.qr(A @ np.random.default_rng(0).standard_normal((N, 3)))[0]
    operator = as_operator(A, center=False, reduce_tall=False)[0] if kind == "dense" else Covariance(A.T @ A)
    X = units if kind == "dense" else np.linalg.lstsq(A, units, rcond=None)[0]
    without = deflate_other_units(operator, X, A.T @ units, 1)
    others = units[:, [0, 2]]
    expected = A - others @ (others.T @ A)
    np.testing.assert_allclose(without.column_norms, np.linalg.norm(expected, axis=0), atol=1e-6 * scale)
    np.testing.assert_allclose(without.gram(ALL), expected.T @ expected, atol=1e-8 * scale**2)


@pytest.mark.parametrize("name", ["dense weighted scaled", "dense deflated by schur 2"])
def test_blocks_of_a_few_columns_give_the_same_columns_norms_and_inner_products(name, monkeypatch):
    monkeypatch.setattr(operators_base, "MIN_SAMPLE_GRAM_COLUMNS", 3)
    monkeypatch.setattr(data_matrix, "NORM_BLOCK_COLUMNS", 3)
    monkeypatch.setattr(deflated, "MAX_BLOCK_COLUMNS", 3)
    case = build(name)
    case.close(case.operator.columns(MANY), case.A[:, MANY])
    case.close(case.operator.sample_gram(ALL), case.A @ case.A.T)
    case.close(DataMatrix(as_container(case.A)).column_norms, np.linalg.norm(case.A, axis=0))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("freedom", [0.0, 0.3, 7.5])
def test_the_scale_divides_by_the_degrees_of_freedom_unless_the_deviation_is_rounding(center, freedom):
    mean, eps = np.array([3.0, -3.0, 0.0]), np.finfo(float).eps
    deviation = MEAN_ROUNDING_IN_EPS * eps * 3 * np.sqrt(5.0) * np.array([0.99, 1.01, 0.0])
    moments = Moments.from_deviations(mean, deviation, 5.0, freedom, center=center, scale=True)
    expected = np.array([0, deviation[1], 0])
    np.testing.assert_allclose(moments.scale, np.where(expected > 0, expected / np.sqrt(freedom or 1), 1))
    total = expected if center else np.sqrt(expected**2 + 5 * mean**2)
    np.testing.assert_allclose(moments.column_norms, total / moments.scale)
    np.testing.assert_array_equal(moments.mean, mean if center else 0)
    factor = moments.make_column_scale(np.dtype(np.float32))
    assert factor.dtype == np.float32
    np.testing.assert_allclose(factor, np.where(moments.column_norms > 0, 1 / moments.scale, 0), rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_batches_are_those_of_all_samples(convert, weighted, dtype):
    X, w = (table() if convert is np.asarray else sparse_table()).astype(dtype), weights() + 0.1
    w = w if weighted else np.ones(P)
    atol = 1e-10 if dtype == np.float64 else 2e-3
    ends = [slice(0, 5), slice(5, 6), slice(6, P)]  # one batch of a single sample
    first, second, third = (RunningMoments.from_batch(convert(X[s]), w[s] if weighted else None) for s in ends)
    assert second.degrees_of_freedom == 0
    X, Z, center = X.astype(np.float64), np.random.default_rng(1).standard_normal((N, 3)), np.linspace(-1, 1, N)
    for merged in (first.merge(second).merge(third), third.merge(second.merge(first))):
        assert merged.total_weight == pytest.approx(w.sum())
        assert merged.degrees_of_freedom == pytest.approx(w.sum() - w @ w / w.sum())
        np.testing.assert_allclose(merged.mean, w @ X / w.sum(), atol=atol)
        A = standardized(X, sample_weight=w)
        np.testing.assert_allclose(merged.scatter, A.T @ A, atol=atol)
        np.testing.assert_allclose(merged.squared_deviations, np.sum(A**2, axis=0), atol=atol)
        Y = (X - center) @ Z
        np.testing.assert_allclose(merged.compute_score_gram(Z, center), Y.T @ (w[:, None] * Y), atol=50 * atol)
        for options in ({"center": c, "scale": s} for c in (True, False) for s in (True, False)):
            operator, _moments = merged.to_operator(**options)
            A = standardized(X, sample_weight=w, **options)
            np.testing.assert_allclose(operator.S, A.T @ A, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=atol)
            assert (operator.dtype, merged.to_float64().to_operator(**options)[0].dtype) == (dtype, np.float64)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, stream])
def test_columns_appended_to_the_moments_of_parts_are_those_of_the_joined_table(convert):
    X, C, part = table(), np.random.default_rng(2).standard_normal((P, 2)) + 4, np.arange(P) % 3
    container = as_container(convert(X))
    moments = as_operator(container, reduce_tall=False)[1]
    by_part = compute_moments_by_part(container, moments, part, 3)
    for i, found in enumerate(append_columns(by_part, container, C, part)):
        expected = RunningMoments.from_batch(np.hstack([X, C])[part == i])
        assert found.total_weight == found.degrees_of_freedom + 1 == 5
        np.testing.assert_allclose(found.mean, expected.mean)
        np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-10)
