"""Errors name the problem, the value seen and the remedy."""

from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from gpower import GPower, GPowerCV, GPowerWarning, Solver, compare, sparsity_path
from gpower.baselines import Thresholding

X = np.random.default_rng(0).standard_normal((12, 6))

BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components=0: a whole number of at least 1"),
    ({"n_components": 7}, "n_components=7 is more than the number of variables, n_features=6"),
    ({"cardinality": 0}, "cardinality=0: a component uses between 1 and n_features=6 variables"),
    ({"cardinality": 7}, "cardinality=7: a component uses between 1 and n_features=6"),
    ({"cardinality": 2.0}, "cardinality=2.0: .* as a whole number; write cardinality=2."),
    ({"cardinality": 2.5}, "cardinality=2.5: .* whole number"),
    ({"cardinality": "auto"}, "cardinality='auto': .*; GPowerCV chooses it by cross-validation"),
    ({"cardinality": (2, 3, 4)}, "cardinality has 3 entries, but n_components=2"),
    ({"cardinality": 3, "gamma": 0.1}, "cardinality and gamma are set together"),
    ({"gamma": 0.1, "l1_bound": 2}, "gamma and l1_bound are set together"),
    ({"gamma": 1.0}, r"gamma=1.0: .* lies in \[0, 1\)"),
    ({"gamma": -0.1}, "use cardinality"),
    ({"l1_bound": 0.5}, "l1_bound=0.5: a finite number of at least 1"),
    ({"l1_bound": 2, "method": "block"}, "l1_bound=2 excludes method='block': .* one unit at a time; use method='defl"),
    ({"penalty": "l2"}, "penalty='l2' is not known; use one of 'l0', 'l1'"),
    ({"solver": "fast"}, "solver='fast' is not known; use 'auto', 'paper', or gpower.Solver"),
    ({"solver": Solver("direct")}, "algorithm='direct' is not known; use one of 'auto', 'working_set', 'full'"),
    ({"solver": Solver(callback="print")}, "callback='print': a function"),
    ({"deflation": "hotelling"}, "deflation='hotelling' is not known; use one of 'projection', 'orthogonalized', 'sch"),
    ({"variance": "l1", "method": "block"}, "excludes method='block'"),
    ({"variance": "l1", "covariance": "precomputed"}, "excludes covariance='precomputed'"),
    ({"mu": (1, 2)}, r"mu=\(1, 2\) excludes method='deflation': it weighs the units of a block; use method='block'"),
    ({"mu": (1, -2), "method": "block"}, "weights of the units must be positive"),
    ({"mu": (1,), "method": "block"}, "mu has 1 entries, but n_components=2"),
    ({"solver": Solver(init="random")}, "init='random': use None"),
    ({"solver": Solver(init=np.zeros((3, 2)))}, r"init has shape \(3, 2\)"),
    ({"solver": Solver(init=np.zeros((12, 2)))}, "zero or not finite"),
    ({"tol": -1}, "tol=-1: a finite number of at least 0"),
    ({"solver": Solver(regularization=-1.0)}, "regularization=-1.0"),
    ({"missing": "drop"}, "missing='drop' is not known; use one of 'error', 'impute'"),
    ({"covariance": "precomputed", "scale": True}, "pass the correlation matrix instead"),
    ({"covariance": np.eye(6)}, "is not known; use one of None, 'precomputed'"),
]
VALUES = {"n_components": [2.5], "gamma": [np.nan, "much"], "n_init": [0, "many"], "max_iter": [0]}
WORDS = {"method": "both", "variance": "l3", "covariance": "given", "positive": "yes"}
SOLVER_OPTIONS = {"refit": True, "local_search": 1, "accumulate_dtype": "float32"}
BAD_PARAMETERS += [({name: value}, f"{name}={value!r}") for name, values in VALUES.items() for value in values]
BAD_PARAMETERS += [({name: word}, f"{name}={word!r} is not known") for name, word in WORDS.items()]
BAD_PARAMETERS += [
    ({"solver": Solver(**{name: value})}, f"{name}={value!r} is not known") for name, value in SOLVER_OPTIONS.items()
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMETERS, ids=lambda value: str(value)[:40])
def test_bad_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        GPower(**params).fit(X)


def test_a_block_must_fit_into_the_samples():
    with pytest.raises(ValueError, match="exceeds n_samples=3; ask for at most 3"):
        GPower(4, method="block").fit(X[:3])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("center", [True, False])
def test_missing_and_infinite_values_are_placed(value, word, make, center):
    bad = X.copy()
    bad[7, 4] = bad[2, 5] = value
    with pytest.raises(ValueError, match=rf"contains .*{word}.*column 4, row 7"):
        GPower(center=center).fit(make(bad))
    with pytest.raises(ValueError, match="column 4, row 7"):
        GPower().fit(X).transform(make(bad))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_missing_values_name_the_column_of_a_frame(frame):
    with pytest.raises(ValueError, match="column 'v1', row 3"):
        GPower().fit(frame({"v0": X[:, 0], "v1": np.where(np.arange(12) == 3, np.nan, X[:, 1])}))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("column", [["a", "b"], [datetime(2020, 1, 1), datetime(2020, 1, 2)]], ids=["text", "dates"])
def test_columns_of_text_and_dates_are_named(frame, column):
    with pytest.raises(ValueError, match="hold text or dates, not numbers: 'when'"):
        GPower(1).fit(frame({"when": column, "x": [1.0, 2.0], "y": [0.0, 1.0]}))


S = np.cov(X.T)
START = Solver(init=np.ones((6, 2)))


@pytest.mark.parametrize(
    ("matrix", "solver", "weight", "message"),
    [
        (X, "auto", None, r"needs a square matrix, not one of shape \(12, 6\)"),
        (S + np.eye(6, k=2), "auto", None, r"not symmetric: entry \(0, 2\) is"),
        (S - 2 * np.eye(6), "auto", None, "not positive semidefinite: its smallest eigenvalue is -"),
        (sp.csr_array(S), "auto", None, "takes a dense matrix"),
        (S, "auto", np.ones(6), "takes no sample_weight"),
        (S, START, None, "a precomputed covariance has none"),
    ],
)
def test_covariances_are_checked(matrix, solver, weight, message):
    with pytest.raises(ValueError, match=message):
        GPower(covariance="precomputed", solver=solver).fit(matrix, sample_weight=weight)


def test_a_wrong_number_of_scores_is_refused():
    with pytest.raises(ValueError, match="The scores have 3 columns, but there are 2 components"):
        GPower().fit(X).inverse_transform(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(5), "n_samples=12"),
        (-np.ones(12), "non-negative"),
        (np.zeros(12), "not all zero"),
        ([np.nan] * 12, "finite"),
        (["a"] * 12, "does not hold numbers; give one per sample"),
        (np.full(12, 1e300), "sample_weight sums to .*; multiply the weights by a constant"),
        (np.full(12, 1e-300), "sample_weight sums to .*; multiply the weights by a constant"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        GPower().fit(X, sample_weight=weight)


def test_errors_leave_the_model_as_it_was():
    model = GPower(cardinality=2).fit(X)
    before = model.components_.copy()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(X > 2, np.nan, X) * [np.nan, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(model.components_, before)


def test_a_path_of_a_text_table_names_its_reader(tmp_path):
    (tmp_path / "w.csv").write_text("a,b\n1,2\n3,4\n")
    for path in (tmp_path / "w.csv", str(tmp_path / "w.csv"), "not there.csv"):
        with pytest.raises(ValueError, match=r"gpower.datasets.read_table\(path\), and fit its X"):
            GPower(1).fit(path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (X.astype("timedelta64[s]"), r"X contains dates or durations \(timedelta64\[s\]\), not numbers"),
        (np.full((4, 3), "2020-01-01", "datetime64[D]"), r"dates or durations \(datetime64\[D\]\)"),
        (list(np.full((4, 3), "NaT", "datetime64[ns]")), "dates or durations"),
        (np.full((4, 3), datetime(2020, 1, 1), object), "X is not a table of numbers .*datetime"),
        ([["a", "1"], ["b", "2"]], "X contains text instead of numbers"),
        (X + 1j, r"^Complex data not supported: give real numbers, such as X.real or .*\.$"),
        ({"a": [1.0, 2.0]}, "X is not a table of numbers .*dict"),
        (np.zeros(4, [("a", "f8"), ("b", "f8")]), "X is not a table of numbers"),
        (SimpleNamespace(obs=None, var=None, X=None), r"pass its matrix, adata\.X"),
        (pl.DataFrame(X).lazy(), r"pass X\.collect\(\)"),
    ],
)
def test_objects_that_are_not_numeric_tables_are_refused(bad, message):
    for missing in ("error", "impute"):
        with pytest.raises((TypeError, ValueError), match=message):
            GPower(1, cardinality=1, missing=missing).fit(bad)


@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_masked_entries_are_missing_values(dtype):
    data = (10 * X).astype(dtype)
    masked = np.ma.masked_array(data, data > 15)
    holes = np.where(data > 15, np.nan, data.astype(np.float32 if dtype is np.float32 else float))
    model = GPower(2, cardinality=3)
    for use in (model.fit, model.partial_fit, clone(model).fit(data).transform, GPowerCV(1).fit, list_of(model.fit)):
        with pytest.raises(ValueError, match="contains NaN"):
            use(masked)
    filled, expected = (GPower(1, cardinality=3, missing="impute").fit(each) for each in (masked, holes))
    np.testing.assert_array_equal(filled.components_, expected.components_)
    np.testing.assert_array_equal(filled.transform(masked), expected.transform(holes))
    unmasked = np.ma.masked_array(data, False)
    np.testing.assert_array_equal(model.fit(unmasked).components_, clone(model).fit(data).components_)
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform(np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]]))
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        model.fit(data, sample_weight=np.ma.masked_array(np.ones(12), np.arange(12) == 3))


def list_of(use):
    """Return the table with its rows in a list."""
    return lambda table: use(list(table))


def test_a_column_without_any_value_is_named():
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(c=np.nan, e=np.nan)
    with pytest.raises(ValueError, match="Column 'c' has no observed value, nor have 1 more"):
        GPower(1, missing="impute").fit(frame)
    with pytest.raises(ValueError, match=r"Column 2 \(counted from 0\) has no observed value"):
        GPower(1, missing="impute").fit(frame.to_numpy())


@pytest.mark.parametrize("kind", [float, object, "Float64"])
def test_columns_of_the_same_name_work(kind):
    frame = pd.DataFrame(X, columns=["gene", "gene", "gene", "a", "b", "gene.1"]).astype(kind)
    model = GPower(1, cardinality=6).fit(frame)
    np.testing.assert_allclose(model.components_, GPower(1, cardinality=6).fit(X).components_, atol=1e-12)
    np.testing.assert_allclose(model.transform(frame), model.transform(frame.set_axis(model.feature_names_in_, axis=1)))
    assert model.feature_names_in_.tolist() == ["gene", "gene.2", "gene.3", "a", "b", "gene.1"]
    assert set(model.loadings()[0]) == set(model.feature_names_in_)
    assert len(GPower(1, cardinality=6).fit(X).loadings(["x"] * 6)[0]) == 6


@pytest.mark.parametrize("fit", [GPower(1).fit, Thresholding(1).fit, sparsity_path, GPowerCV(1, cv=2).fit])
def test_a_covariance_without_the_option_is_pointed_out(fit):
    with pytest.warns(GPowerWarning, match="looks like a correlation matrix; if it is, add covariance='precomputed'"):
        fit(np.corrcoef(X.T))
    with pytest.warns(GPowerWarning, match="looks like a covariance matrix"):
        fit(pd.DataFrame(S, index=list("abcdef"), columns=list("abcdef")))


def test_a_comparison_raises_its_format_warnings_once():
    with pytest.warns(GPowerWarning, match="looks like a correlation matrix") as caught:
        table = compare(np.corrcoef(X.T), n_components=1, cardinality=2, methods=["gpower-l0", "greedy"])
    assert len(caught) == 1
    assert not any("looks like" in entry.note for entry in table)
