"""A second working set of sparse columns takes over the Gram matrix of the first where few columns are new."""

import numpy as np
import pytest
import scipy.sparse as sp
import threadpoolctl

from gpower._utils import threads
from gpower._utils.threads import map_in_threads
from gpower.operators import as_operator
from gpower.operators.storage.sparse import SparseMatrix

FIRST = np.arange(80)


@pytest.mark.parametrize(
    ("second", "n_gram_matrices"), [(FIRST[5:], 1), (np.arange(5, 83), 1), (np.arange(40, 180), 2)]
)
def test_the_gram_matrix_of_a_second_restriction_is_that_of_its_columns(second, n_gram_matrices, monkeypatch):
    X = sp.random_array((3000, 200), density=0.05, format="csr", rng=np.random.default_rng(0))
    computed = []
    gram = SparseMatrix.gram
    monkeypatch.setattr(SparseMatrix, "gram", lambda self, *args: computed.append(args) or gram(self, *args))
    operator = as_operator(X, reduce_tall=False)[0].with_column_cache()
    operator.restrict(FIRST)
    restricted = operator.restrict(second).operator
    columns = X.toarray()[:, second]
    centred = columns - columns.mean(axis=0)
    expected = centred.T @ centred
    np.testing.assert_allclose(restricted.gram(np.arange(len(second))), expected, atol=1e-9 * np.max(expected))
    assert len(computed) == n_gram_matrices


def test_threads_that_multiply_dense_arrays_limit_blas_to_one_thread(monkeypatch):
    def count_blas_threads(_=None):
        return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}

    monkeypatch.setattr(threads, "get_thread_count", lambda: 2)  # also on a machine with one processor
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = count_blas_threads()
        assert all(found <= {1} for found in map_in_threads(count_blas_threads, range(4), limit_blas=True))
        assert count_blas_threads() == before
