"""One contract for every operator: its products are those of an explicit matrix A, built here with NumPy alone.

A case pairs an operator with that matrix and with its *frame*: the matrix that takes a representation of a
sample-space vector to its coordinates (the identity for data, A itself where only AᵀA is known).
"""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from gpower.io.stores.source import MatrixSource
from gpower.operators import Covariance, DataMatrix, as_operator
from gpower.operators.base import Operator
from gpower.operators.storage.dask import DaskMatrix
from gpower.operators.storage.disk import StreamedMatrix
from gpower.problem.deflation import DEFLATION_RULES

P, N = 15, 20
FEW, MANY = np.array([17, 2, 5]), np.array([3, 19, 0, 1, 8, 7, 4, 12, 10, 15, 6, 9, 2])
SIZES = pytest.mark.parametrize("idx", [FEW, MANY], ids=["few", "many"])


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


def data_case(X, dense=None, **options):
    dense = X if dense is None else dense
    return Case(as_operator(X, reduce_tall=False, **options)[0], standardized(dense, **options), np.eye(dense.shape[0]))


def streamed(X, axis=0, lines=4, spare=1 << 20):
    """Return X as a store read in blocks of a few rows or columns; `spare` bytes may hold gathered columns."""
    A = X if sp.issparse(X) else np.asarray(X)
    read = (lambda lo, hi: A[lo:hi]) if axis == 0 else (lambda lo, hi: A[:, lo:hi])
    nnz = A.nnz if sp.issparse(X) else 0
    matrix = StreamedMatrix(
        MatrixSource("table", A.shape, A.dtype, read, axis, is_sparse=sp.issparse(X), nnz=nnz), spare
    )
    matrix.block_edges = np.append(np.arange(0, A.shape[axis], lines), A.shape[axis])
    return matrix


def streamed_case(X, axis=0, spare=1 << 20, **options):
    dense = X.toarray() if sp.issparse(X) else X
    return data_case(streamed(X, axis, spare=spare), dense, **options)


def dask_case(X, axis=0, spare=1 << 20, **options):
    """Return X as a Dask array with a few rows or columns per chunk, computed by threads."""
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    dense = X.toarray() if sp.issparse(X) else X
    lazy = da.from_array(dense, chunks=(4, N) if axis == 0 else (P, 4))
    if sp.issparse(X):
        lazy = lazy.map_blocks(type(X))
    return data_case(DaskMatrix(lazy, spare), dense, **options)


def covariance_case(dtype=np.float64):
    A = standardized(table())
    return Case(Covariance((A.T @ A).astype(dtype)), A, A)


def taken(case, idx):
    A = case.A[:, idx]
    operator = case.operator.take(idx)
    return Case(operator, A, np.eye(P) if operator.has_samples else A)


def deflated(case, rule, count):
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


BASES = {
    "dense C": lambda: data_case(table()),
    "dense Fortran": lambda: data_case(np.asfortranarray(table())),
    "dense uncentred": lambda: data_case(table(), center=False),
    "dense scaled": lambda: data_case(table(), scale=True),
    "dense scaled uncentred": lambda: data_case(table(), center=False, scale=True),
    "dense weighted": lambda: data_case(table(), sample_weight=weights()),
    "dense weighted uncentred": lambda: data_case(table(), center=False, sample_weight=weights()),
    "dense weighted scaled": lambda: data_case(table(), scale=True, sample_weight=weights()),
    "Fortran weighted scaled": lambda: data_case(np.asfortranarray(table()), scale=True, sample_weight=weights()),
    "float32": lambda: data_case(table(np.float32)),
    "float32 weighted scaled": lambda: data_case(table(np.float32), scale=True, sample_weight=weights()),
    "CSR array": lambda: data_case(sp.csr_array(sparse_table()), sparse_table()),
    "CSR array uncentred": lambda: data_case(sp.csr_array(sparse_table()), sparse_table(), center=False),
    "CSR array scaled": lambda: data_case(sp.csr_array(sparse_table()), sparse_table(), scale=True),
    "CSR array weighted": lambda: data_case(sp.csr_array(sparse_table()), sparse_table(), sample_weight=weights()),
    "CSR matrix": lambda: data_case(sp.csr_matrix(sparse_table()), sparse_table()),
    "CSC array": lambda: data_case(sp.csc_array(sparse_table()), sparse_table()),
    "CSC matrix": lambda: data_case(sp.csc_matrix(sparse_table()), sparse_table()),
    "CSC matrix weighted scaled": lambda: data_case(
        sp.csc_matrix(sparse_table()), sparse_table(), scale=True, sample_weight=weights()
    ),
    "CSR float32": lambda: data_case(sp.csr_array(sparse_table().astype(np.float32)), sparse_table()),
    "streamed rows": lambda: streamed_case(table()),
    "streamed columns": lambda: streamed_case(table(), axis=1),
    "streamed rows weighted scaled": lambda: streamed_case(table(), scale=True, sample_weight=weights()),
    "streamed columns weighted scaled": lambda: streamed_case(table(), 1, scale=True, sample_weight=weights()),
    "streamed rows uncentred": lambda: streamed_case(table(), center=False),
    "streamed float32": lambda: streamed_case(table(np.float32)),
    "streamed rows with little memory": lambda: streamed_case(table(), spare=512, scale=True, sample_weight=weights()),
    "streamed CSR": lambda: streamed_case(sp.csr_array(sparse_table())),
    "streamed CSR weighted scaled": lambda: streamed_case(
        sp.csr_array(sparse_table()), scale=True, sample_weight=weights()
    ),
    "streamed CSC": lambda: streamed_case(sp.csc_array(sparse_table()), axis=1),
    "Dask rows": lambda: dask_case(table()),
    "Dask columns": lambda: dask_case(table(), axis=1),
    "Dask rows weighted scaled": lambda: dask_case(table(), scale=True, sample_weight=weights()),
    "Dask columns weighted scaled": lambda: dask_case(table(), 1, scale=True, sample_weight=weights()),
    "Dask uncentred": lambda: dask_case(table(), center=False),
    "Dask rows with little memory": lambda: dask_case(table(), spare=512, scale=True, sample_weight=weights()),
    "Dask float32": lambda: dask_case(table(np.float32)),
    "Dask CSR": lambda: dask_case(sp.csr_matrix(sparse_table())),
    "Dask CSR weighted scaled": lambda: dask_case(sp.csr_matrix(sparse_table()), scale=True, sample_weight=weights()),
    "Dask CSR float32": lambda: dask_case(sp.csr_matrix(sparse_table().astype(np.float32))),
    "Dask CSC": lambda: dask_case(sp.csc_matrix(sparse_table()), axis=1),
    "covariance": covariance_case,
    "covariance float32": lambda: covariance_case(np.float32),
}
DEFLATED = {
    f"{base} deflated by {rule} {count}": (base, rule, count)
    for base in (
        "dense C",
        "dense weighted scaled",
        "float32",
        "CSR array",
        "streamed rows",
        "streamed rows with little memory",
        "streamed CSR",
        "Dask rows",
        "covariance",
        "covariance float32",
    )
    for rule in DEFLATION_RULES
    for count in (1, 2)
}
TAKEN = {f"{base} taken": base for base in ("dense weighted scaled", "CSR array", "covariance")}
NAMES = [*BASES, *TAKEN, *(f"{name} taken" for name in DEFLATED if name.endswith("2")), *DEFLATED]


def build(name):
    if name in BASES:
        return BASES[name]()
    if name in DEFLATED:
        base, rule, count = DEFLATED[name]
        return deflated(BASES[base](), rule, count)
    return taken(build(name.removesuffix(" taken")), np.arange(N)[::-1])


@pytest.fixture(params=NAMES)
def case(request):
    return build(request.param)


def vectors(case, rows, m=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, m)).astype(case.operator.dtype)


def few_rows(case, m=3):
    """Return coefficients of two variables, so that the products may gather those alone."""
    T = np.zeros((N, m), case.operator.dtype)
    T[[4, 16]] = vectors(case, 2, m, seed=1)
    return T


def test_combine_is_the_adjoint_of_correlate(case):
    T, X = vectors(case, N), vectors(case, case.operator.shape[0], seed=2)
    Y = case.operator.combine(T)
    case.close(case.operator.inner(X, Y, case.operator.correlate(Y)), case.operator.correlate(X).T @ T)
    case.close(case.operator.inner(Y, X, case.operator.correlate(X)), T.T @ case.operator.correlate(X))


def test_combine_is_the_product_with_the_matrix(case):
    T = vectors(case, N)
    case.close(case.frame @ case.operator.combine(T), case.A @ T)


def test_combine_of_a_few_variables_is_the_product_with_the_matrix(case):
    T = few_rows(case)
    case.close(case.frame @ case.operator.combine(T), case.A @ T)


def test_combine_of_nothing_is_zero(case):
    Y = case.operator.combine(np.zeros((N, 2), case.operator.dtype))
    np.testing.assert_array_equal(Y, np.zeros((case.operator.shape[0], 2)))


def test_correlate_is_the_product_with_the_transpose(case):
    X = vectors(case, case.operator.shape[0])
    case.close(case.operator.correlate(X), case.A.T @ (case.frame @ X))


def test_correlate_after_combine_is_the_gram_matrix(case):
    identity = np.eye(N, dtype=case.operator.dtype)
    case.close(case.operator.correlate(case.operator.combine(identity)), case.A.T @ case.A)


def test_correlate_after_combine_of_a_few_variables_is_their_part_of_the_gram_matrix(case):
    T = few_rows(case)
    case.close(case.operator.correlate(case.operator.combine(T)), case.A.T @ (case.A @ T))


def test_columns_are_the_images_of_unit_vectors(case):
    E = np.eye(N, dtype=case.operator.dtype)[:, MANY]
    case.close(case.frame @ case.operator.columns(MANY), case.frame @ case.operator.combine(E))
    case.close(case.frame @ case.operator.columns(MANY), case.A[:, MANY])


@SIZES
def test_gram_is_that_of_the_columns(case, idx):
    case.close(case.operator.gram(idx), case.A[:, idx].T @ case.A[:, idx])


def test_column_norms_are_those_of_the_matrix(case):
    case.close(case.operator.column_norms, np.linalg.norm(case.A, axis=0))


def test_total_variance_is_the_squared_frobenius_norm(case):
    assert case.operator.total_variance == pytest.approx(np.sum(case.A**2), rel=10 * case.rtol)


def test_squared_norms_are_the_diagonal_of_inner(case):
    X = vectors(case, case.operator.shape[0])
    C = case.operator.correlate(X)
    case.close(case.operator.squared_norms(X, C), np.sum((case.frame @ X) ** 2, axis=0))
    case.close(case.operator.squared_norms(X, C), np.diagonal(case.operator.inner(X, X, C)))


def test_dual_represents_the_inner_product(case):
    X, Y = vectors(case, case.operator.shape[0]), vectors(case, case.operator.shape[0], seed=3)
    case.close(case.operator.dual(X).T @ Y, (case.frame @ X).T @ (case.frame @ Y))


@SIZES
def test_restriction_has_the_gram_matrix_of_its_columns(case, idx):
    inner = case.operator.restrict(idx).operator
    identity = np.eye(len(idx), dtype=case.operator.dtype)
    case.close(inner.correlate(inner.combine(identity)), case.A[:, idx].T @ case.A[:, idx])


@SIZES
def test_restriction_lifts_to_vectors_with_the_same_correlations(case, idx):
    restriction = case.operator.restrict(idx)
    X = restriction.operator.combine(vectors(case, len(idx)))
    C = restriction.operator.correlate(X)
    lifted = restriction.lift(X)
    whole = case.operator.correlate(lifted)
    case.close(whole[idx], C)
    case.close(case.operator.inner(lifted, lifted, whole), restriction.operator.inner(X, X, C))


def test_taken_columns_are_an_operator_of_their_own(case):
    part = taken(case, FEW)
    assert part.operator.shape[1] == len(FEW)
    X = vectors(part, part.operator.shape[0])
    case.close(part.operator.correlate(X), part.A.T @ (part.frame @ X))
    case.close(part.operator.column_norms, np.linalg.norm(part.A, axis=0))


def test_every_product_keeps_the_type_of_the_data(case):
    operator, dtype = case.operator, case.operator.dtype
    T, X = vectors(case, N), vectors(case, case.operator.shape[0])
    C = operator.correlate(X)
    restriction = operator.restrict(FEW)
    products = {
        "combine": operator.combine(T),
        "combine a few": operator.combine(few_rows(case)),
        "correlate": C,
        "columns": operator.columns(FEW),
        "gram": operator.gram(FEW),
        "column_norms": operator.column_norms,
        "inner": operator.inner(X, X, C),
        "squared_norms": operator.squared_norms(X, C),
        "dual": operator.dual(X),
        "take": operator.take(FEW),
        "restrict": restriction.operator,
        "lift": restriction.lift(restriction.operator.combine(vectors(case, len(FEW)))),
    }
    assert {name: product.dtype for name, product in products.items()} == dict.fromkeys(products, dtype)


def test_products_change_none_of_their_inputs(case):
    T, X, C = vectors(case, N), vectors(case, case.operator.shape[0]), vectors(case, N, seed=4)
    idx = MANY.copy()
    copies = [array.copy() for array in (T, X, C, idx)]
    norms = case.operator.column_norms.copy()
    case.operator.combine(T), case.operator.correlate(X), case.operator.columns(idx), case.operator.gram(idx)
    case.operator.inner(X, X, C), case.operator.squared_norms(X, C), case.operator.dual(X)
    restriction = case.operator.restrict(idx)
    restriction.lift(restriction.operator.combine(vectors(case, len(idx))))
    case.operator.take(idx).correlate(vectors(case, case.operator.take(idx).shape[0]))
    DEFLATION_RULES["projection"].remove(case.operator, T[:, 0] / np.linalg.norm(T[:, 0])).correlate(X)
    for array, copy in zip((T, X, C, idx), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(case.operator.column_norms, norms)


@pytest.mark.parametrize("rule", DEFLATION_RULES)
def test_a_deflated_matrix_has_nothing_left_of_the_component(rule):
    case = BASES["dense C"]()
    z = np.random.default_rng(3).standard_normal(N)
    z /= np.linalg.norm(z)
    left = DEFLATION_RULES[rule].remove(case.operator, z)
    assert np.max(np.abs(left.combine(z[:, None]))) <= 1e-12 * np.linalg.norm(case.A)


@pytest.mark.parametrize("rule", DEFLATION_RULES)
@pytest.mark.parametrize("base", ["dense C", "covariance"])
def test_removing_a_zero_component_changes_nothing(base, rule):
    operator = BASES[base]().operator
    assert DEFLATION_RULES[rule].remove(operator, np.zeros(N)) is operator


@pytest.mark.parametrize("base", ["dense C", "covariance"])
def test_removing_a_component_twice_leaves_the_orthogonalized_matrix_as_it_is(base):
    case = BASES[base]()
    z = np.eye(N)[:, 6]
    once = DEFLATION_RULES["orthogonalized"].remove(case.operator, z)
    assert DEFLATION_RULES["orthogonalized"].remove(once, z) is once


# --- columns gathered once ------------------------------------------------------------------------------------------

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
        T = np.zeros((N, 2), operator.dtype)
        T[idx[-2:]] = vectors(case, 2, 2)
        case.close(case.frame @ operator.combine(T), case.A @ T)
        case.close(case.frame @ operator.combine(few_rows(case)), case.A @ few_rows(case))
    for restriction, idx, expected in kept:
        identity = np.eye(len(idx), dtype=case.operator.dtype)
        case.close(restriction.operator.correlate(restriction.operator.combine(identity)), expected)
        lifted = restriction.lift(restriction.operator.combine(identity))
        case.close(case.frame @ lifted, case.A[:, idx])


@pytest.mark.parametrize("name", ["dense C", "CSR array"])
def test_a_restriction_reads_only_columns_not_gathered_before(name):
    operator = build(name).operator.with_column_cache()
    assert passes(operator, lambda A: A.restrict(np.array([2, 5, 17]))) == pytest.approx(3 / N)
    assert passes(operator, lambda A: A.restrict(np.array([2, 4, 17]))) <= 3 / N


# --- passes -------------------------------------------------------------------------------------------------------


def passes(operator, work):
    before = operator.passes
    work(operator)
    return operator.passes - before


@pytest.mark.parametrize("name", ["dense C", "CSR array", "CSC matrix", "dense C deflated by schur 2"])
def test_products_with_data_count_the_share_of_the_matrix_they_read(name):
    case = build(name)
    T, X = vectors(case, N), vectors(case, P)
    operator = case.operator if name in BASES else case.operator.base
    shares = {
        "correlate": (lambda: case.operator.correlate(X), 1),
        "combine": (lambda: case.operator.combine(T), 1),
        "combine a few": (lambda: case.operator.combine(few_rows(case)), 2 / N),
        "columns": (lambda: case.operator.columns(FEW), len(FEW) / N),
        "gram": (lambda: case.operator.gram(FEW), len(FEW) / N),
        "restrict": (lambda: case.operator.restrict(FEW), len(FEW) / N),
        "take": (lambda: case.operator.take(FEW), len(FEW) / N),
    }
    counted = {name: passes(operator, lambda _, work=work: work()) for name, (work, _) in shares.items()}
    assert counted == pytest.approx({name: share for name, (_, share) in shares.items()})


def test_products_with_a_covariance_count_the_share_of_it_they_read():
    case = covariance_case()
    T = vectors(case, N)
    assert passes(case.operator, lambda A: A.correlate(T)) == 1
    assert passes(case.operator, lambda A: A.correlate(few_rows(case))) == pytest.approx(2 / N)
    assert passes(case.operator, lambda A: A.combine(T)) == 0
    assert passes(case.operator, lambda A: A.gram(FEW)) == pytest.approx((len(FEW) / N) ** 2)


def test_a_deflated_operator_continues_the_count_of_its_base():
    case = build("dense C deflated by projection 2")
    assert case.operator.passes == case.operator.base.passes > 2


def test_reading_the_column_norms_again_costs_nothing(case):
    _ = case.operator.column_norms
    assert passes(case.operator, lambda A: A.column_norms) == 0


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}, {"center": False, "scale": True}])
def test_means_and_norms_take_a_pass_or_two(options):
    assert 1 <= as_operator(table(), reduce_tall=False, **options)[0].passes <= 2


# --- the data as the user gave them ---------------------------------------------------------------------------------


class Densified(AssertionError):
    """Raised if a whole sparse matrix is made dense."""


@pytest.fixture
def never_densified(monkeypatch):
    """Make sparse containers raise if they are made dense as a whole."""

    def guard(kind, method):
        whole = getattr(kind, method)

        def guarded(self, *args, **kwargs):
            if self.shape in ((P, N), (N, P)):
                raise Densified(f"{kind.__name__}.{method}")
            return whole(self, *args, **kwargs)

        monkeypatch.setattr(kind, method, guarded)

    for kind in (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.coo_matrix):
        for method in ("toarray", "todense", "__array__"):
            if hasattr(kind, method):
                guard(kind, method)


KINDS = pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])


@KINDS
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.usefixtures("never_densified")
def test_a_sparse_matrix_is_never_made_dense(kind, reduce):
    operator, _ = as_operator(kind(sparse_table()), scale=True, sample_weight=weights(), reduce_tall=reduce)
    for rule in DEFLATION_RULES.values():
        left = rule.remove(rule.remove(operator, np.eye(N)[:, 1]), np.full(N, N**-0.5))
        for A in (operator, left):
            A.correlate(A.combine(np.ones((N, 2))))
            A.restrict(MANY).operator.correlate(A.restrict(MANY).operator.columns(np.arange(3)))
            A.gram(FEW), A.column_norms, A.total_variance, A.take(FEW)


@pytest.mark.usefixtures("never_densified")
def test_the_guard_against_densification_works():
    with pytest.raises(Densified):
        sp.csr_array(sparse_table()).toarray()


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}, {"sample_weight": weights()}])
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_data_are_left_as_they_were(options, reduce, order):
    X = np.array(np.tile(table(), (4, 1))[: P if "sample_weight" in options else None] + 1e9, order=order)
    copy = X.copy()
    operator, _ = as_operator(X, reduce_tall=reduce, **options)
    operator.combine(np.ones((N, 2)))
    operator.columns(MANY)
    operator.take(np.arange(N))
    operator.restrict(np.arange(N)).operator.combine(np.ones((N, 1)))
    np.testing.assert_array_equal(X, copy)


@KINDS
def test_sparse_data_are_left_as_they_were(kind):
    X = kind(sparse_table())
    copies = X.data.copy(), X.indices.copy(), X.indptr.copy()
    operator, _ = as_operator(X, scale=True, sample_weight=weights())
    operator.combine(np.ones((N, 2)))
    operator.columns(MANY)
    operator.take(np.arange(N))
    for array, copy in zip((X.data, X.indices, X.indptr), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


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
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"center": False},
        {"scale": True},
        {"center": False, "scale": True},
        {"sample_weight": np.linspace(0, 2, 60)},
        {"scale": True, "sample_weight": np.linspace(0, 2, 60)},
    ],
    ids=["centred", "uncentred", "scaled", "scaled uncentred", "weighted", "weighted scaled"],
)
def test_tall_data_are_replaced_by_their_covariance(container, options, dtype):
    X = tall_table(0.5, dtype)
    operator, _ = as_operator(container(X), **options)
    assert isinstance(operator, Covariance)
    assert operator.dtype == dtype
    A = standardized(X, **options)
    np.testing.assert_allclose(
        operator.S, A.T @ A, rtol=0, atol=(1e-11 if dtype == np.float64 else 1e-5) * np.sum(A**2)
    )


def test_wide_data_are_not_replaced_by_their_covariance():
    assert isinstance(as_operator(table())[0], DataMatrix)


def test_tall_data_stay_data_where_the_samples_are_needed():
    assert isinstance(as_operator(tall_table(), reduce_tall=False)[0], DataMatrix)


@EACH_CONTAINER
@pytest.mark.parametrize("reduce", [True, False], ids=["reduced", "as samples"])
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"sample_weight": np.linspace(0.5, 2, 60)}])
def test_a_large_offset_costs_no_digits(container, reduce, options):
    # Powers of two keep the shifted numbers exact, so that the result is that of the unshifted table.
    X = np.round(tall_table() * 2**10) / 2**10
    shifted = X + 2.0**20
    expected = gram_of(as_operator(X, reduce_tall=False, **options)[0])
    operator, moments = as_operator(container(shifted), reduce_tall=reduce, **options)
    found = gram_of(operator)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.max(expected))
    np.testing.assert_allclose(operator.column_norms, np.sqrt(np.diagonal(expected)), rtol=1e-8)
    mean = np.average(X, axis=0, weights=options.get("sample_weight"))
    np.testing.assert_allclose(moments.mean, mean + 2.0**20, rtol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"sample_weight": weights()}])
def test_a_large_offset_of_wide_data_costs_no_digits(offset, order, options):
    X = np.array(table() + offset, order=order)
    A = standardized(X, **options)
    operator, _ = as_operator(X, **options)
    np.testing.assert_allclose(gram_of(operator), A.T @ A, rtol=0, atol=1e-8 * np.max(A.T @ A))
    np.testing.assert_allclose(operator.column_norms, np.linalg.norm(A, axis=0), rtol=1e-8)


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
    "rows": streamed,
    "columns": lambda X: streamed(X, axis=1),
}


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("weight", [0.0, 1e-20])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_a_sample_masked_by_its_weight_leaves_no_trace(kind, offset, weight, dtype, rtol):
    """A sample of weight zero has no effect, whatever its values and position."""
    rng = np.random.default_rng(9)
    X = (rng.standard_normal((90, 7)) + offset).astype(dtype)
    if weight == 0:
        X[:, 2] = 0.3
    expected = as_operator(X[1:].copy(), scale=True, reduce_tall=False)[1]
    X[0] = 1e7
    w = np.ones(90, dtype)
    w[0] = weight
    _, moments = as_operator(MASKED[kind](X), scale=True, sample_weight=w, reduce_tall=False)
    np.testing.assert_allclose(moments.mean, expected.mean, atol=rtol, rtol=1e-9 if dtype == np.float64 else 1e-6)
    np.testing.assert_allclose(moments.scale, expected.scale, rtol=rtol)


@pytest.mark.parametrize("kind", [kind for kind in MASKED if kind != "CSR"])
@pytest.mark.parametrize(
    ("dtype", "value", "rtol"),
    [(np.float64, 1e30, 1e-6), (np.float64, 1e160, 1e-6), (np.float32, 1e12, 1e-3), (np.float32, 1e25, 1e-3)],
)
def test_many_masked_samples_leave_no_trace_either(kind, dtype, value, rtol):
    X = np.random.default_rng(10).standard_normal((90, 7)).astype(dtype)
    expected = as_operator(X[40:].copy(), scale=True, reduce_tall=False)[1]
    X[:40] = value
    weight = (np.arange(90) >= 40).astype(dtype)
    with np.errstate(over="ignore"):  # as a fit does
        _, moments = as_operator(MASKED[kind](X), scale=True, sample_weight=weight, reduce_tall=False)
    np.testing.assert_allclose(moments.mean, expected.mean, atol=rtol)
    np.testing.assert_allclose(moments.scale, expected.scale, rtol=rtol)


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


@EACH_CONTAINER
@pytest.mark.parametrize("constant", [0.1, 1 / 3, -1e7 / 3])
def test_a_constant_column_is_not_divided_by_its_rounding_noise(container, constant):
    X = tall_table()
    X[:, 1] = constant
    operator, moments = as_operator(container(X), center=False, scale=True, reduce_tall=False)
    assert moments.scale[1] == 1
    assert operator.column_norms[1] == pytest.approx(abs(constant) * np.sqrt(60))
    np.testing.assert_allclose(operator.columns(np.array([1]))[:, 0], constant)


def test_a_single_sample_is_all_zeros_once_centred():
    operator, _ = as_operator(table()[:1])
    np.testing.assert_array_equal(operator.correlate(np.ones((1, 1))), np.zeros((N, 1)))
    assert operator.total_variance == 0


@pytest.mark.parametrize("container", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_rows_of_weight_zero_have_no_influence_however_far_they_lie(container, scale, center):
    X, weight = tall_table(), np.ones(60)
    X[:40] += 1e6
    weight[:40] = 0
    options = {"center": center, "scale": scale}
    operator, moments = as_operator(container(X), sample_weight=weight, reduce_tall=False, **options)
    rest, expected = as_operator(X[40:], reduce_tall=False, **options)
    np.testing.assert_allclose(gram_of(operator), gram_of(rest), atol=1e-8 * np.max(gram_of(rest)))
    np.testing.assert_allclose(operator.column_norms, rest.column_norms, rtol=1e-8)
    np.testing.assert_allclose(moments.mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(moments.scale, expected.scale, rtol=1e-8)


@pytest.mark.parametrize("deflated", [False, True])
@EACH_CONTAINER
def test_sums_in_double_round_once(container, deflated):
    """Products of many samples in single precision: as exact as the data, where plain sums lose digits."""
    rng = np.random.default_rng(13)
    X = (rng.lognormal(0, 1, (30_000, 40)) + 5).astype(np.float32)
    exact, _ = as_operator(X.astype(np.float64), reduce_tall=False)
    plain, _ = as_operator(container(X), reduce_tall=False)
    double, _ = as_operator(container(X), reduce_tall=False, double_sums=True)
    if deflated:
        z = rng.standard_normal(40)
        z /= np.linalg.norm(z)
        exact, plain, double = (
            DEFLATION_RULES["projection"].remove(operator, z.astype(operator.dtype))
            for operator in (exact, plain, double)
        )
    x = exact.columns(np.array([3])).astype(np.float32)
    T = rng.standard_normal((40, 2)).astype(np.float32)
    idx = np.arange(0, 40, 3)

    def errors(operator):
        pairs = [
            (operator.correlate(x), exact.correlate(x.astype(np.float64))),
            (operator.gram(idx), exact.gram(idx)),
            (operator.restrict(idx).operator.gram(np.arange(idx.size)), exact.gram(idx)),
            (operator.combine(T), exact.combine(T.astype(np.float64))),
        ]
        assert all(found.dtype == np.float32 for found, _ in pairs)
        return np.array([np.max(np.abs(found - expected)) / np.max(np.abs(expected)) for found, expected in pairs])

    assert np.all(errors(double) < 1e-6)
    assert errors(double)[0] < errors(plain)[0]


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


def stored_twice(kind):
    """Return a matrix with some entries stored as two summands, and its dense form."""
    data, minor = np.array([1.0, 2.0, 5.0, -1.0, 4.0, 0.5, 0.5, 3.0]), np.array([0, 0, 1, 2, 2, 3, 3, 0])
    X = kind((data, minor, np.array([0, 3, 5, 7, 8])), shape=(4, 4))
    assert not X.has_canonical_format
    return X, X.copy().toarray()


@KINDS
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"center": False}])
def test_entries_stored_in_parts_count_as_their_sum(kind, options):
    X, dense = stored_twice(kind)
    A = standardized(dense, **options)
    for reduce in (True, False):
        operator, _ = as_operator(X, reduce_tall=reduce, **options)
        np.testing.assert_allclose(gram_of(operator), A.T @ A, atol=1e-12)
        np.testing.assert_allclose(operator.column_norms, np.linalg.norm(A, axis=0), atol=1e-12)


def test_the_moments_of_weighted_data_are_those_of_repeated_rows_but_for_the_divisor():
    X, counts = tall_table(1.0), np.arange(60) % 3
    weighted, moments = as_operator(X, scale=True, sample_weight=counts.astype(float))
    repeated, expected = as_operator(np.repeat(X, counts, axis=0), scale=True)
    factor = expected.degrees_of_freedom / moments.degrees_of_freedom
    np.testing.assert_allclose(weighted.S * factor, repeated.S, atol=1e-10)
    np.testing.assert_allclose(moments.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(moments.scale, expected.scale * np.sqrt(factor), rtol=1e-12)
    assert expected.degrees_of_freedom == counts.sum() - 1
    assert moments.degrees_of_freedom == pytest.approx(counts.sum() - np.sum(counts**2) / counts.sum())
