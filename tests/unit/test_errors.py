"""Errors teach: what was wrong, the value seen, what to do instead."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from gpower import GPower

X = np.random.default_rng(0).standard_normal((12, 6))

BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components=0: a whole number of at least 1"),
    ({"n_components": 2.5}, "n_components=2.5"),
    ({"n_components": 7}, "n_components=7 is more than the number of variables, n_features=6"),
    ({"cardinality": 0}, "cardinality=0: a component uses between 1 and n_features=6 variables"),
    ({"cardinality": 7}, "cardinality=7: a component uses between 1 and n_features=6"),
    ({"cardinality": 2.0}, "cardinality=2.0: .* whole number"),
    ({"cardinality": (2, 3, 4)}, "cardinality has 3 entries, but n_components=2"),
    ({"cardinality": 3, "gamma": 0.1}, "cardinality and gamma are set together"),
    ({"gamma": 0.1, "l1_bound": 2}, "gamma and l1_bound are set together"),
    ({"gamma": 1.0}, r"gamma=1.0: .* lies in \[0, 1\)"),
    ({"gamma": -0.1}, "use cardinality"),
    ({"gamma": np.nan}, "gamma=nan"),
    ({"gamma": "much"}, "gamma="),
    ({"l1_bound": 0.5}, "l1_bound=0.5: a finite number of at least 1"),
    ({"l1_bound": 2, "method": "block"}, 'l1_bound works on one unit at a time; use method="deflation"'),
    ({"penalty": "l2"}, "penalty='l2' is not known; use one of 'l0', 'l1'"),
    ({"method": "both"}, "method='both' is not known"),
    ({"solver": "fast"}, "solver='fast' is not known"),
    ({"refit": True}, "refit=True is not known"),
    (
        {"deflation": "hotelling"},
        "deflation='hotelling' is not known; use one of 'projection', 'orthogonalized', 'schur'",
    ),
    ({"variance": "l3"}, "variance='l3' is not known"),
    ({"variance": "l1", "method": "block"}, 'excludes method="block"'),
    ({"variance": "l1", "covariance": "precomputed"}, 'excludes covariance="precomputed"'),
    ({"covariance": "given"}, "covariance='given' is not known"),
    ({"mu": (1, 2)}, 'no meaning with method="deflation"'),
    ({"mu": (1, -2), "method": "block"}, "weights of the units must be positive"),
    ({"mu": (1,), "method": "block"}, "mu has 1 entries, but n_components=2"),
    ({"init": "random"}, "init='random': use None"),
    ({"init": np.zeros((3, 2))}, r"init has shape \(3, 2\)"),
    ({"init": np.zeros((12, 2))}, "zero or not finite"),
    ({"n_init": 0}, "n_init"),
    ({"n_init": "many"}, "n_init"),
    ({"tol": -1}, "tol=-1: a finite number of at least 0"),
    ({"max_iter": 0}, "max_iter=0"),
    ({"regularization": -1.0}, "regularization=-1.0"),
    ({"positive": "yes"}, "positive='yes' is not known"),
    ({"covariance": "precomputed", "scale": True}, "pass the correlation matrix instead"),
    ({"covariance": np.eye(6)}, "is not known; use one of None, 'precomputed'"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMETERS, ids=lambda value: str(value)[:40])
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        GPower(**params).fit(X)


def test_a_block_must_fit_into_the_samples():
    with pytest.raises(ValueError, match="does not fit into n_samples=3; ask for at most 3"):
        GPower(4, method="block").fit(X[:3])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("center", [True, False])
def test_missing_and_infinite_values_are_placed(value, word, make, center):
    bad = X.copy()
    bad[7, 4] = value
    bad[2, 5] = value
    with pytest.raises(ValueError, match=rf"contains .*{word}.*column 4, row 7"):
        GPower(center=center).fit(make(bad))
    with pytest.raises(ValueError, match="column 4, row 7"):
        GPower().fit(X).transform(make(bad))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_missing_values_name_the_column_of_a_frame(frame):
    bad = X.copy()
    bad[3, 1] = np.nan
    table = frame({f"v{j}": bad[:, j] for j in range(6)})
    with pytest.raises(ValueError, match="column 'v1', row 3"):
        GPower().fit(table)


def test_containers_that_hold_no_matrix_say_what_to_pass():
    class AnnDataLike:
        obs = var = X = None

    with pytest.raises(TypeError, match=r"pass its matrix, adata\.X"):
        GPower().fit(AnnDataLike())
    with pytest.raises(TypeError, match=r"pass X\.collect\(\)"):
        GPower().fit(pl.DataFrame(X).lazy())
    with pytest.raises(ValueError, match="X holds text where numbers belong"):
        GPower().fit([["a", "1"], ["b", "2"]])
    dates = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"]), "x": [1.0, 2.0], "y": [0.0, 1.0]})
    with pytest.raises(ValueError, match="hold text or dates, not numbers: 'when'"):
        GPower(1).fit(dates)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_columns_are_named(frame):
    table = frame({"sample": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "y": [1.0, 0.0, 3.0]})
    with pytest.raises(ValueError, match="not numbers: 'sample'"):
        GPower(1).fit(table)


def test_covariances_are_checked():
    S = np.cov(X.T)
    wrong = S.copy()
    wrong[1, 3] += 0.5
    cases = [
        (X, r"needs a square matrix of variables × variables, got shape \(12, 6\)"),
        (wrong, r"not symmetric: entry \(1, 3\) is"),
        (S - 2 * np.eye(6), "not positive semidefinite: its smallest eigenvalue is -"),
    ]
    for matrix, message in cases:
        with pytest.raises(ValueError, match=message):
            GPower(covariance="precomputed").fit(matrix)
    with pytest.raises(ValueError, match="takes a dense matrix"):
        GPower(covariance="precomputed").fit(sp.csr_array(S))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        GPower(covariance="precomputed").fit(S, sample_weight=np.ones(6))
    with pytest.raises(ValueError, match="a precomputed covariance does not have"):
        GPower(covariance="precomputed", init=np.ones((6, 2))).fit(S)


def test_wrong_number_of_features():
    model = GPower().fit(X)
    with pytest.raises(ValueError, match="X has 5 features, but GPower is expecting 6"):
        model.transform(X[:, :5])
    with pytest.raises(ValueError, match="The scores have 3 columns, but there are 2 components"):
        model.inverse_transform(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(5), "n_samples=12"),
        (-np.ones(12), "non-negative"),
        (np.zeros(12), "not all zero"),
        ([np.nan] * 12, "finite"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        GPower().fit(X, sample_weight=weight)


def test_errors_leave_the_model_as_it_was():
    model = GPower(cardinality=2).fit(X)
    before = model.components_.copy()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(X > 2, np.nan, X) * [np.nan, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(model.components_, before)
