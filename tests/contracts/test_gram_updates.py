"""A second working set of sparse columns takes over the Gram matrix of the first where few columns are new."""

import numpy as np
import pytest
import scipy.sparse as sp

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
