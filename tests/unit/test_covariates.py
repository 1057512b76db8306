"""Fits with covariates equal fits to explicitly residualised tables, whatever the container of the data is."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.contracts.device_double import DeviceArray
from tests.memory import measure_peak_memory
from tests.optional_packages import OptionalPackage

from gpower import GPower
from gpower.operators import as_container
from gpower.validation.covariates import CovariateVariables

da = OptionalPackage("dask.array")
pd = pytest.importorskip("pandas")
zarr = OptionalPackage("zarr")

P, N, C = 40, 12, 3


def make_table(seed, n_samples=P, n_features=N):
    """Return a table whose variables depend on covariates, the covariates, and sample weights."""
    rng = np.random.default_rng(seed)
    covariates = (rng.standard_normal((n_samples, C)) + 3) * [1e-2, 1.0, 1e2]
    X = rng.standard_normal((n_samples, n_features)) + 2
    X[:, :4] += 2 * rng.standard_normal((n_samples, 1))
    X += covariates / [1e-2, 1.0, 1e2] @ rng.standard_normal((C, n_features))
    X = np.where(rng.random(X.shape) < 0.4, X, 0.0)
    return X, covariates, rng.uniform(0.2, 2.0, n_samples)


def residualize(X, covariates, weight=None, center=True):
    """Return the residuals of the weighted least-squares regression, with the means of X put back."""
    w = np.ones(len(X)) if weight is None else weight
    design = np.column_stack([np.ones(len(X)), covariates]) if center else covariates
    root = np.sqrt(w)[:, None]
    coef = np.linalg.lstsq(root * design, root * X, rcond=None)[0]
    rest = X - design @ coef
    return rest + w @ X / w.sum() if center else rest


def to_dask(X):
    return da.from_array(X, chunks=(11, X.shape[1]))


def to_zarr(X):
    stored = zarr.zeros(shape=X.shape, chunks=(len(X) // 5, X.shape[1] // 2), dtype=X.dtype)
    stored[:] = X
    return stored


CONTAINERS = {
    "array": lambda X: X,
    "Fortran": np.asfortranarray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
    "frame": pd.DataFrame,
    "zarr": to_zarr,
    "Dask": to_dask,
    "device": DeviceArray,
}
OPTIONS = {
    "cardinality": {"cardinality": 3},
    "gamma": {"gamma": 0.2},
    "scaled": {"cardinality": 3, "scale": True},
    "not centred": {"cardinality": 3, "center": False},
    "orthogonalized": {"cardinality": 4, "deflation": "orthogonalized"},
    "block": {"gamma": 0.1, "method": "block"},
}


def to_array(values):
    return np.asarray(values.a if isinstance(values, DeviceArray) else values)


def assert_same_fit(model, expected, rtol=1e-8):
    np.testing.assert_allclose(to_array(model.components_), expected.components_, atol=rtol)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=rtol)
    np.testing.assert_allclose(model.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=rtol)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal weights", "weights"])
@pytest.mark.parametrize(
    ("container", "options"),
    [*((name, "scaled") for name in CONTAINERS), *(("array", name) for name in OPTIONS), ("CSR", "block")],
)
def test_a_fit_with_covariates_is_the_fit_to_the_residuals(container, options, weighted):
    container, options = CONTAINERS[container], OPTIONS[options]
    for seed in range(2):
        X, covariates, weight = make_table(seed)
        weight = weight if weighted else None
        rest = residualize(X, covariates, weight, options.get("center", True))
        expected = GPower(2, **options).fit(rest, sample_weight=weight)
        model = GPower(2, **options).fit(container(X), sample_weight=weight, covariates=covariates)
        assert_same_fit(model, expected)
        scores = model.transform(container(X), covariates=covariates)
        scores = scores.compute() if hasattr(scores, "compute") else scores
        np.testing.assert_allclose(to_array(scores), expected.transform(rest), atol=1e-7)
        if container in (CONTAINERS["array"], CONTAINERS["CSR"]):
            assert model.score(container(X), covariates=covariates) == pytest.approx(expected.score(rest), rel=1e-7)


@pytest.mark.parametrize("container", ["array", "CSR", "zarr", "Dask", "device"])
@pytest.mark.parametrize(("n_samples", "n_features"), [(60, 300), (900, 40)], ids=["wide", "tall"])
def test_tables_that_are_not_copied_are_those_of_the_residuals_as_well(container, n_samples, n_features, monkeypatch):
    X, covariates, weight = make_table(3, n_samples, n_features)
    expected = GPower(3, cardinality=6).fit(residualize(X, covariates, weight), sample_weight=weight)
    for name in ("MAX_DIRECT_ENTRIES", "MAX_UPCAST_ENTRIES"):
        monkeypatch.setattr(f"gpower.validation.prepare.{name}", 0)
    model = GPower(3, cardinality=6).fit(CONTAINERS[container](X), sample_weight=weight, covariates=covariates)
    assert_same_fit(model, expected)


def test_a_sparse_matrix_is_never_densified():
    X = sp.random_array((6000, 1500), density=0.01, format="csr", rng=np.random.default_rng(0))
    covariates = np.random.default_rng(1).standard_normal((6000, 5))
    model = GPower(1, cardinality=5).fit(X[:50], covariates=covariates[:50])  # imports are not counted
    peak = measure_peak_memory(lambda: model.fit(X, covariates=covariates).transform(X, covariates=covariates))
    assert peak < 0.5 * 8 * X.shape[0] * X.shape[1]


def test_categories_are_indicators_and_batches_are_a_category():
    X, covariates, _ = make_table(2)
    labels = np.array(["a", "b", "c", "b"] * 10)
    indicators = (labels[:, None] == np.array(["a", "b"])).astype(float)
    expected = GPower(2, cardinality=3).fit(X, covariates=np.column_stack([covariates[:, :1], indicators]))
    frame = pd.DataFrame({"age": covariates[:, 0], "plate": pd.Categorical(labels)})
    model = GPower(2, cardinality=3).fit(X, covariates=frame)
    assert_same_fit(model, expected)
    assert list(model.covariates_names_) == ["age", "plate", "plate", "plate"]
    assert list(model.covariates_levels_) == ["", "a", "b", "c"]
    assert_same_fit(GPower(2, cardinality=3).fit(X, covariates=frame[["age"]], batch=labels), expected)
    centred = X - pd.DataFrame(X).groupby(labels).transform("mean").to_numpy()
    assert_same_fit(GPower(2, cardinality=3).fit(X, batch=labels), GPower(2, cardinality=3).fit(centred))


@pytest.mark.parametrize("labels", [np.arange(P) % 3, np.arange(P) % 3 + 0.0, [i % 3 for i in range(P)]], ids=str)
def test_numbers_of_batches_are_labels(labels):
    X = make_table(2)[0]
    model = GPower(1, cardinality=3).fit(X, batch=labels)
    assert list(model.covariates_levels_) == ["0", "1", "2"]
    assert_same_fit(model, GPower(1, cardinality=3).fit(X, batch=np.array(["a", "b", "c"])[np.arange(P) % 3]))
    for numbers in ([1.0, 2.0], ["1", "2"]):
        np.testing.assert_array_equal(model.transform(X[:2], batch=numbers), model.transform(X[:2], batch=[1, 2]))
    versions = GPower(1, cardinality=3).fit(X, batch=["v1", "v1.0"] * (P // 2))
    assert versions.covariates_levels_.tolist() == ["v1", "v1.0"]


def test_balanced_batches_have_equal_weight():
    X, _, weight = make_table(4)
    labels = np.repeat([1, 2], [30, 10])
    balanced = np.where(labels == 1, weight / weight[:30].sum(), weight / weight[30:].sum())
    expected = GPower(2, cardinality=3).fit(X, sample_weight=balanced * weight.sum() / 2, batch=labels)
    model = GPower(2, cardinality=3, balance=True).fit(X, sample_weight=weight, batch=labels)
    assert_same_fit(model, expected)
    with pytest.raises(ValueError, match="balance=True weights batches equally; pass their labels as batch="):
        GPower(2, cardinality=3, balance=True).fit(X)
    with pytest.raises(ValueError, match="balance=True weights batches of samples; a covariance has no samples"):
        GPower(2, cardinality=3, balance=True, covariance="precomputed").fit(X.T @ X)


def test_covariates_of_a_covariance_are_some_of_its_variables():
    X, covariates, _ = make_table(5)
    names = [f"gene{j}" for j in range(N)] + ["age", "depth", "dose"]
    joint = pd.DataFrame(np.column_stack([X, covariates]), columns=names).cov()
    model = GPower(2, cardinality=3, covariance="precomputed").fit(joint, covariates=["age", "depth", "dose"])
    expected = GPower(2, cardinality=3).fit(X, covariates=covariates)
    np.testing.assert_allclose(model.components_, np.pad(expected.components_, ((0, 0), (0, C))), atol=1e-8)
    np.testing.assert_allclose(model.covariates_coef_[:, :N], expected.covariates_coef_, atol=1e-8)
    centred = np.column_stack([X - X.mean(axis=0), covariates - covariates.mean(axis=0)])
    scores = model.transform(pd.DataFrame(centred, columns=names))
    np.testing.assert_allclose(scores, expected.transform(X, covariates=covariates), atol=1e-8)


@pytest.mark.parametrize("scale", [False, True])
def test_the_removed_share_of_variance_is_reported(scale):
    X, covariates, _ = make_table(6)
    rest = residualize(X, covariates)
    shares = 1 - rest.var(axis=0) / X.var(axis=0)
    expected = shares.mean() if scale else 1 - rest.var(axis=0).sum() / X.var(axis=0).sum()
    X = np.column_stack([X, np.full(P, 5.0)])  # a constant variable has no share
    model = GPower(1, cardinality=3, scale=scale).fit(X, covariates=covariates)
    assert model.covariate_variance_ratio_ == pytest.approx(expected, rel=1e-8)
    assert f"predicted {expected:.1%} of the variance" in model.notes_[0]
    assert not hasattr(model.fit(X), "covariate_variance_ratio_")


def test_collinear_and_constant_covariates_change_nothing():
    X, covariates, _ = make_table(7)
    more = np.column_stack([covariates, covariates.sum(axis=1), np.full(P, 7.0)])
    assert_same_fit(*(GPower(2, cardinality=3).fit(X, covariates=each) for each in (more, covariates)))


def test_a_variable_that_is_a_covariate_gets_no_loading():
    X, covariates, _ = make_table(8)
    X[:, 5] = 1000 * covariates[:, 0]
    model = GPower(2, cardinality=3).fit(X, covariates=covariates)
    assert not model.components_[:, 5].any()


FRAME = pd.DataFrame({"age": np.arange(P, dtype=float), "sex": ["f", "m"] * (P // 2)})


@pytest.mark.parametrize(
    ("covariates", "batch", "message"),
    [
        (FRAME.assign(age=FRAME["age"].where(FRAME.index != 3)), None, "'age' has 1 missing value.*row 3"),
        (FRAME.assign(sex=FRAME["sex"].where(FRAME.index > 1)), None, "'sex' has 2 missing value.*row 0"),
        (None, [""] + ["a"] * (P - 1), "'batch' has 1 missing value"),
        (None, ["a", "NA"] + ["b"] * (P - 2), "'batch' has 1 missing value.*row 1.*, 'NA'; fill them"),
        ({"sex": ["f", pd.NA, pd.NaT, "unknown"] * (P // 4)}, None, "'sex' has 30 missing value.*row 1"),
        (None, np.where(np.arange(P) == 3, np.nan, 1.0), "'batch' has 1 missing value.*row 3"),
        (None, np.ones((P, 2)), "'batch' has the shape"),
        (FRAME.iloc[:-1], None, "'age' has the shape .39,., but there are 40 samples"),
        (None, np.arange(P), "predict every variable exactly"),
        (FRAME.assign(age=np.inf), None, "'age' contains infinity"),
        (pd.concat([FRAME["age"], FRAME["age"]], axis=1), None, "Two covariates are called 'age'"),
        (np.zeros((P, 2, 2)), None, "covariates has the shape"),
        *((nothing, None, "covariates has no columns") for nothing in ({}, FRAME[[]], np.zeros((P, 0)))),
    ],
)
def test_unusable_covariates_are_refused(covariates, batch, message):
    with pytest.raises(ValueError, match=message):
        GPower(1, cardinality=3).fit(make_table(0)[0], covariates=covariates, batch=batch)


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (None, "pass those of the samples as covariates= or batch=: age, sex"),
        (FRAME[["age"]], "lack 'sex'; pass those of the fit: age, sex"),
        (FRAME.assign(dose=1.0), "contain 'dose', which the fit did not have"),
        (FRAME.assign(sex="x"), "'sex' has the level 'x', which the fit did not see; its levels were f, m"),
        (FRAME.assign(sex=1.0), "'sex' had categories in the fit, and has others here"),
    ],
    ids=["none", "missing", "unknown", "new level", "type"],
)
def test_transform_needs_the_covariates_of_the_fit(covariates, message):
    X = make_table(0)[0]
    model = GPower(1, cardinality=3).fit(X, covariates=FRAME)
    with pytest.raises(ValueError, match=message):
        model.transform(X, covariates=covariates)
    with pytest.raises(ValueError, match="fitted without covariates"):
        GPower(1, cardinality=3).fit(X).transform(X, covariates=FRAME)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": [1, 1, 2, 2]}, "batch= labels samples"),
        ({"covariates": ["dose"]}, "'dose' is none of its 4 variables"),
    ],
)
def test_a_covariance_has_neither_batches_nor_covariates_of_other_names(options, message):
    with pytest.raises(ValueError, match=message):
        GPower(1, cardinality=2, covariance="precomputed").fit(np.eye(4), **options)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["array", "CSR"])
def test_constant_variables_stay_constant_beside_large_covariates(wrap):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    X[:, 1] = 5.0
    seconds = 1.7e9 + 1e3 * rng.standard_normal(50)  # a date
    model = GPower(2, cardinality=1, scale=True).fit(wrap(X), covariates=seconds)
    assert model.scale_[1] == 1
    assert not model.components_[:, 1].any()


@pytest.mark.parametrize("pass_as", ["frame", "mapping", "batch"])
def test_samples_in_another_order_are_refused(pass_as):
    X = pd.DataFrame(make_table(0)[0], index=[f"s{i}" for i in range(P)])
    labels = pd.Series(np.tile(["a", "b"], P // 2), index=X.index)
    arguments = {
        "frame": lambda values: {"covariates": values.to_frame("site")},
        "mapping": lambda values: {"covariates": {"site": values}},
        "batch": lambda values: {"batch": values},
    }[pass_as]
    model = GPower(1, cardinality=2).fit(X, **arguments(labels))
    for call in (model.fit, model.transform):
        with pytest.raises(ValueError, match=r"Row 0 is 's39' in (covariates|batch) and 's0' in X"):
            call(X, **arguments(labels[::-1]))


@pytest.mark.parametrize("seed", range(3))
def test_a_covariate_that_others_determine_changes_nothing_in_a_float32_covariance(seed):
    """What the sum of two others adds to them is rounding, by which nothing may be divided."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 12))
    X[:, 2] = X[:, 0] + X[:, 1]
    S = np.cov(X.T).astype(np.float32)
    variables = (CovariateVariables.find(columns, None, 12) for columns in ([0, 1], [0, 1, 2]))
    two, three = (each.regress(as_container(S), None, True) for each in variables)
    assert three.rank == two.rank == 2
    np.testing.assert_allclose(three.residuals[3:, 3:], two.residuals[3:, 3:], rtol=0, atol=1e-5 * S.max())


def test_covariates_of_a_covariance_that_are_nearly_collinear_are_both_removed():
    rng = np.random.default_rng(0)
    age, change = rng.standard_normal((2, 400))
    X = rng.standard_normal((400, 6)) + 3 * np.outer(change, rng.standard_normal(6))
    table = np.column_stack([age, age + 1e-5 * change, X])
    model = GPower(1, cardinality=2, covariance="precomputed").fit(np.cov(table.T), covariates=[0, 1])
    expected = GPower(1, cardinality=2).fit(residualize(X, np.column_stack([age, change])))
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-4)
