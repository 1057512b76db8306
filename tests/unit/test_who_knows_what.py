"""Who knows groups, named variables, weights, shares and warm starts: every cell of the table in the guide, run."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.contracts.device_double import DeviceArray
from tests.known import GROUPS, scatter, table, used

from gpower import GPower, GPowerCV, best_subset, certify, compare, component_test, sparsity_path, stability_selection
from gpower.baselines import Greedy
from gpower.penalties.elementary import Cardinality

GUIDE = Path(__file__).parents[2] / "docs" / "known-variables.md"
X, COSTS = table(3, p=40), np.linspace(1, 2, 12)
LEVELS = ("cardinality", "gamma", "budget")
#: What is told in each column of the table, with what fixes the sparsity.
TOLD = {
    "groups": [{"groups": GROUPS, "cardinality": 2}, {"groups": GROUPS, "gamma": 0.1}],
    "include, exclude": [{"include": [3], "exclude": [1], "cardinality": 3}, {"include": [3], "gamma": 0.1}],
    "penalty_weights, budget": [{"penalty_weights": COSTS, "budget": 4.0}, {"penalty_weights": COSTS, "gamma": 0.1}],
    "share": [{"cardinality": 0.7}],
    "warm_start": [{"warm_start": True, "cardinality": 3}],
}


def without(told, *words):
    return {word: value for word, value in told.items() if word not in words}


def fit(told, data=X, **options):
    """A model fitted twice, so that a warm start is one; what was told is kept."""
    told = {"n_components": 2} | told | options
    model = GPower(**told).fit(data).fit(data)
    for z in np.asarray(model.components_):
        whole = all(np.unique(z[g == GROUPS] != 0).size == 1 for g in range(6))
        assert "groups" not in told or whole or told.get("positive")  # of which some loadings may be zero
        assert "exclude" not in told or 1 not in used(z)
        assert COSTS[z != 0].sum() <= told.get("budget", np.inf) * (1 + 1e-9)
    return model


def formulations(told, tmp_path):
    for options in ({"penalty": "l0"}, {"penalty": "l1"}, {"positive": True}, {"variance": "l1"}):
        if "budget" not in told or options != {"penalty": "l1"}:
            model = fit(told, n_components=1, **options)
            assert "include" not in told or "positive" in options or 3 in used(model.components_[0])


def containers(told, tmp_path):
    dask = pytest.importorskip("dask.array")
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    for data in (X, sp.csr_array(X), tmp_path / "X.npy", dask.from_array(X, chunks=(10, 12))):
        fit(told, data)
    fit(told, scatter(X), covariance="precomputed")
    model = GPower(1, **told)
    for part in np.array_split(X, 2):
        model.partial_fit(part)


def paths(told, tmp_path):
    grid = {"gammas": [0.2, 0.1]} if told.get("gamma") or "budget" in told else {"cardinalities": [2, 3]}
    path = sparsity_path(X, **without(told, *LEVELS), **grid)
    if isinstance(told.get("cardinality"), float):
        path.at(share=0.3)


def searches(told, tmp_path):
    GPowerCV(1, cv=3, **without(told, *LEVELS), **({"penalty": "l1"} if "penalty_weights" in told else {})).fit(X)


def resampled(told, tmp_path):
    stability_selection(X, n_components=1, n_subsamples=3, **told)
    component_test(X, 1, n_permutations=39, **told)


def certified(told, tmp_path):
    model = fit(told, n_components=1, certify=True)
    assert model.optimality_ratio_[0] <= 1
    assert certify(model, X)[0].upper_bound >= model.upper_bound_[0] * (1 - 1e-6)


def kept(told, tmp_path):
    model = fit(told, checkpoint=tmp_path / "kept.npz")
    fit(told, checkpoint=tmp_path / "kept.npz", resume=True)
    model.save(tmp_path / "model.npz")
    GPower.load(tmp_path / "model.npz").fit(X)
    sparsity_path(X, cardinalities=[2, 3], **without(told, *LEVELS, "penalty_weights")).save(tmp_path / "path.npz")


def others(told, tmp_path):
    told = {"n_components": 1, "cardinality": 3} | without(told, "gamma", "budget")
    with pytest.raises((TypeError, ValueError), match=r"unexpected keyword|whole number"):
        compare(X, **told)
    Greedy(**told).fit(X)


ROWS = {
    '`penalty="l0"`, `"l1"`, `positive`, `variance="l1"`': formulations,
    "`l1_bound`": lambda told, tmp_path: fit(
        told if isinstance(told.get("cardinality"), float) else without(told, *LEVELS), l1_bound=2.0
    ),
    "a penalty of your own": lambda told, tmp_path: fit(without(told, "gamma"), penalty=Cardinality(np.array([3]))),
    '`method="block"`': lambda told, tmp_path: fit(told, method="block"),
    "`constraint=`": lambda told, tmp_path: fit(told, constraint="disjoint"),
    "data in memory, sparse, a covariance, on disk, on a cluster, `partial_fit`": containers,
    "arrays on a GPU": lambda told, tmp_path: GPower(1, **told).fit(DeviceArray(X)),
    "rounds, screening, exchanges": lambda told, tmp_path: fit(told, solver="rounds"),
    "`sparsity_path`": paths,
    "`GPowerCV`, `-k auto`": searches,
    "`stability`, `component_test`": resampled,
    "`best_subset`": lambda told, tmp_path: best_subset(X, **{"cardinality": 3} | without(told, "gamma", "budget")),
    "`certify`, `certify=True`, `certify_total`": certified,
    "checkpoints, saved models and paths": kept,
    "`baselines`, `compare`": others,
}


def cells():
    """The cells of the table in the guide, by row and column."""
    lines = GUIDE.read_text(encoding="utf-8").split("## 7. Who knows what")[1].split("## 8.")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return {(row[0], column): cell for row in rows[2:] for column, cell in zip(rows[0], row[1:], strict=True)}


def test_the_table_has_these_rows_and_columns():
    assert list(dict.fromkeys(row for row, _ in cells())) == list(ROWS)
    assert list(dict.fromkeys(column for _, column in cells())) == list(TOLD)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", TOLD)
def test_a_cell_of_the_table(row, column, tmp_path):
    cell = cells()[row, column]
    for told in TOLD[column]:
        if cell.startswith("refused"):
            with pytest.raises(ValueError, match=r"go together|set together|host only|a share|works on"):
                ROWS[row](told, tmp_path)
        elif cell == "no":
            with pytest.raises((TypeError, ValueError), match=r"unexpected keyword|whole number"):
                ROWS[row](told, tmp_path)
        elif cell not in ("–", "no meaning"):
            ROWS[row](told, tmp_path)


@pytest.mark.parametrize(
    ("fits", "sentence"),
    [
        (lambda: sparsity_path(X, budget=3, penalty_weights=COSTS), "budget"),
        (lambda: GPowerCV(2, include=[[1], [2]]).fit(X), "cross-validation takes one list for all"),
        (lambda: GPowerCV(2, penalty_weights=COSTS).fit(X), "penalty_weights says nothing about a cardinality"),
        (lambda: GPower(1, penalty="l1", penalty_weights=COSTS, budget=3).fit(X), 'budget works with penalty="l0"'),
        (lambda: fit({"cardinality": 0.7}, penalty=Greedy), "is not known"),
    ],
)
def test_what_a_cell_leaves_out_is_refused(fits, sentence):
    with pytest.raises(ValueError, match=sentence):
        fits()
