"""Every cell of the table of supported combinations in the guide to rules on variables."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from tests.contracts.device_double import DeviceArray
from tests.enumeration import GROUPS, compute_scatter, make_table, support_of

from gpower import (
    GPower,
    GPowerCV,
    Solver,
    best_subset,
    certify,
    compare,
    component_test,
    sparsity_path,
    stability_selection,
)
from gpower.baselines import Greedy
from gpower.penalties.elementary import Cardinality

GUIDE = Path(__file__).parents[2] / "docs" / "known-variables.md"
X, COSTS = make_table(3, p=40), np.linspace(1, 2, 12)
LEVELS = ("cardinality", "gamma", "budget")
#: Parameters of each column of the table, with a parameter that sets the sparsity.
PARAMS = {
    "groups": [{"groups": GROUPS, "cardinality": 2}, {"groups": GROUPS, "gamma": 0.1}],
    "include, exclude": [{"include": [3], "exclude": [1], "cardinality": 3}, {"include": [3], "gamma": 0.1}],
    "penalty_weights, budget": [{"penalty_weights": COSTS, "budget": 4.0}, {"penalty_weights": COSTS, "gamma": 0.1}],
    "share": [{"cardinality": 0.7}],
    "warm_start": [{"warm_start": True, "cardinality": 3}],
}


def drop_params(params, *words):
    return {word: value for word, value in params.items() if word not in words}


def fit(params, data=X, **options):
    """Fit a model, twice if the second fit is to begin at the first, and assert that the rules hold."""
    params = {"n_components": 2} | params | options
    model = GPower(**params).fit(data)
    model = model.fit(data) if model.warm_start else model
    for z in np.asarray(model.components_):
        whole = all(np.unique(z[g == GROUPS] != 0).size == 1 for g in range(6))
        assert "groups" not in params or whole or params.get("positive")  # positive groups may have zero loadings
        assert "exclude" not in params or 1 not in support_of(z)
        assert COSTS[z != 0].sum() <= params.get("budget", np.inf) * (1 + 1e-9)
    return model


def check_formulations(params, tmp_path):
    for options in ({"penalty": "l0"}, {"penalty": "l1"}, {"positive": True}, {"variance": "l1"}):
        if "budget" not in params or options != {"penalty": "l1"}:
            model = fit(params, n_components=1, **options)
            assert "include" not in params or "positive" in options or 3 in support_of(model.components_[0])


def check_containers(params, tmp_path):
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    for data in (X, sp.csr_array(X), tmp_path / "X.npy", da.from_array(X, chunks=(10, 12))):
        fit(params, data)
    fit(params, compute_scatter(X), covariance="precomputed")
    model = GPower(1, **params)
    for part in np.array_split(X, 2):
        model.partial_fit(part)


def check_paths(params, tmp_path):
    grid = {"gammas": [0.2, 0.1]} if params.get("gamma") or "budget" in params else {"cardinalities": [2, 3]}
    path = sparsity_path(X, **drop_params(params, *LEVELS), **grid)
    if isinstance(params.get("cardinality"), float):
        path.at(share=0.3)


def check_cross_validation(params, tmp_path):
    penalty = "l1" if "penalty_weights" in params else "l0"
    GPowerCV(1, cardinalities=[2, 3], cv=3, penalty=penalty, **drop_params(params, *LEVELS)).fit(X)


def check_resampling(params, tmp_path):
    stability_selection(X, n_components=1, n_subsamples=3, **params)
    component_test(X, 1, n_permutations=39, **params)


def check_certificates(params, tmp_path):
    model = fit(params, n_components=1, certify=True)
    assert model.optimality_ratio_[0] <= 1
    certificate = certify(model, X)[0]
    assert certificate.upper_bound >= certificate.value * (1 - 1e-9)


def save_and_load(params, tmp_path):
    model = fit(params, checkpoint=tmp_path / "checkpoint.npz")
    fit(params, checkpoint=tmp_path / "checkpoint.npz", resume=True)
    model.save(tmp_path / "model.npz")
    GPower.load(tmp_path / "model.npz").fit(X)
    sparsity_path(X, cardinalities=[2, 3], **drop_params(params, *LEVELS, "penalty_weights")).save(
        tmp_path / "path.npz"
    )


def check_baselines(params, tmp_path):
    params = {"n_components": 1, "cardinality": 3} | drop_params(params, "gamma", "budget")
    with pytest.raises((TypeError, ValueError), match=r"unexpected keyword|whole number"):
        compare(X, **params)
    Greedy(**params).fit(X)


def check_covariates(params, tmp_path):
    known = {"covariates": np.arange(40.0) ** 2, "batch": np.arange(40) % 3}
    model = GPower(2, **params).fit(X, **known).fit(X, **known)
    design = np.column_stack([known["covariates"], np.eye(3)[known["batch"]]])
    rest = X - design @ np.linalg.lstsq(design, X, rcond=None)[0]
    expected = GPower(2, **params).fit(rest).fit(rest)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-7)


ROWS = {
    '`penalty="l0"`, `"l1"`, `positive`, `variance="l1"`': check_formulations,
    "`l1_bound`": lambda params, tmp_path: fit(
        params if isinstance(params.get("cardinality"), float) else drop_params(params, *LEVELS), l1_bound=2.0
    ),
    "your own penalty": lambda params, tmp_path: fit(drop_params(params, "gamma"), penalty=Cardinality(np.array([3]))),
    '`method="block"`': lambda params, tmp_path: fit(params, method="block"),
    "`constraint=`": lambda params, tmp_path: fit(params, constraint="disjoint"),
    "data in memory, sparse, a covariance, on disk, on a cluster, `partial_fit`": check_containers,
    "[`covariates`, `batch`](covariates.md)": check_covariates,
    "arrays on a GPU": lambda params, tmp_path: GPower(1, **params).fit(DeviceArray(X)),
    "working sets, screening, local search": lambda params, tmp_path: fit(params, solver=Solver("working_set")),
    "`sparsity_path`": check_paths,
    "`GPowerCV`, `-k auto`": check_cross_validation,
    "`stability_selection`, `component_test`": check_resampling,
    "`best_subset`": lambda params, tmp_path: best_subset(
        X, **{"cardinality": 3} | drop_params(params, "gamma", "budget")
    ),
    "`certify`, `certify=True`, `certify_total`": check_certificates,
    "checkpoints, saved models and paths": save_and_load,
    "`baselines`, `compare`": check_baselines,
}


def read_cells():
    """Return the cells of the table in the guide by row and column."""
    lines = GUIDE.read_text(encoding="utf-8").split("## 7. Supported combinations")[1].split("## 8.")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return {(row[0], column): cell for row in rows[2:] for column, cell in zip(rows[0], row[1:], strict=True)}


def test_the_table_has_these_rows_and_columns():
    assert list(dict.fromkeys(row for row, _ in read_cells())) == list(ROWS)
    assert list(dict.fromkeys(column for _, column in read_cells())) == list(PARAMS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", PARAMS)
def test_a_cell_of_the_table(row, column, tmp_path):
    cell = read_cells()[row, column]
    for params in PARAMS[column]:
        if cell.startswith("refused"):
            with pytest.raises(ValueError, match=r"excludes|set together|host only|a share|works on"):
                ROWS[row](params, tmp_path)
        elif cell == "no":
            with pytest.raises((TypeError, ValueError), match=r"unexpected keyword|whole number"):
                ROWS[row](params, tmp_path)
        elif cell not in ("–", "no meaning"):
            ROWS[row](params, tmp_path)


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        (lambda: sparsity_path(X, budget=3, penalty_weights=COSTS), "budget"),
        (lambda: GPowerCV(2, include=[[1], [2]]).fit(X), "cross-validation takes one list for all"),
        (lambda: fit({"cardinality": 0.7}, penalty=Greedy), "or an object of a class derived from"),
    ],
)
def test_combinations_without_a_cell_are_refused(fits, message):
    with pytest.raises(ValueError, match=message):
        fits()
