"""Stability selection: frequencies, signs and the error bound, for any order and sign of the components."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.planted_data import make_modules

from gpower import GPower, Solver, stability_selection
from gpower.datasets import load_planted_expression

DATA = load_planted_expression()


def groups(seed=0, p=80, n=20):
    """Return two groups with loadings of both signs, the first of larger variance."""
    return make_modules((p, n), (slice(4), [4, -4, 4, -4]), (slice(10, 13), [-3, 3, 3]), seed=seed)


def test_frequencies_and_signs_are_those_of_the_fits_of_the_parts():
    X, rng = groups(), np.random.RandomState(5)
    found = stability_selection(X, n_components=1, cardinality=5, n_subsamples=12, fraction=0.4, random_state=5)
    reference = GPower(1, cardinality=5).fit(X).components_[0]
    parts = [GPower(1, cardinality=5).fit(X[rng.permutation(80)[:32]]).components_[0] for _ in range(12)]
    rows = np.array([np.sign(z) * np.sign(z @ reference) for z in parts])
    np.testing.assert_array_equal(found.frequency[0], np.mean(rows != 0, axis=0))
    used = found.frequency[0] > 0
    np.testing.assert_allclose(found.sign[0, used], rows.sum(axis=0)[used] / np.count_nonzero(rows[:, used], axis=0))
    assert np.all(found.sign[0, ~used] == 0)
    np.testing.assert_array_equal(found.model.components_[0], reference)
    assert found.n_subsamples == 12


def test_equally_strong_components_that_change_places_keep_their_frequencies():
    """Of two factors of equal variance, each comes first in half of the subsamples."""
    X = make_modules((60, 12), (slice(3), 2), (slice(6, 9), 2), seed=1, noise=0.3)
    found = stability_selection(X, n_components=2, cardinality=3, n_subsamples=30)
    assert sorted(tuple(np.flatnonzero(row)) for row in found.selected) == [(0, 1, 2), (6, 7, 8)]
    assert np.all(found.frequency[found.selected] == 1)
    np.testing.assert_array_equal(found.sign[found.selected], np.sign(found.model.components_[found.selected]))


def test_the_bound_of_meinshausen_and_buehlmann():
    found = stability_selection(groups(), n_components=2, cardinality=[6, 2], n_subsamples=10, threshold=0.7)
    q = found.frequency.sum(axis=1)
    np.testing.assert_allclose(q, [6, 2])
    np.testing.assert_allclose(found.expected_false_selections, q**2 / (0.4 * 20))
    np.testing.assert_array_equal(found.selected, found.frequency >= 0.7)


def test_the_bound_holds_in_noise():
    """Of exchangeable variables without signal, no more are selected on average than the bound."""
    model = GPower(1, cardinality=5, n_init=1, solver=Solver(local_search=False))
    tables = (np.random.default_rng(seed).standard_normal((30, 40)) for seed in range(5))
    runs = [stability_selection(X, model, n_subsamples=20, threshold=0.6) for X in tables]
    assert sum(run.selected.sum() for run in runs) <= sum(run.expected_false_selections[0] for run in runs)


def test_results_repeat_and_a_model_may_be_given():
    X, options = groups(), {"n_subsamples": 6, "fraction": 0.2}
    first = stability_selection(X, GPower(1, cardinality=6), **options)
    second = stability_selection(X, n_components=1, cardinality=6, n_jobs=2, **options)
    other = stability_selection(X, GPower(1, cardinality=6), random_state=3, **options)
    np.testing.assert_array_equal(first.frequency, second.frequency)
    np.testing.assert_array_equal(first.sign, second.sign)
    assert np.any(first.frequency != other.frequency)


def test_sparse_data_give_the_same_answer():
    X, model = np.where(np.random.default_rng(0).random((80, 20)) < 0.3, 0, groups()), GPower(1, cardinality=4)
    dense, sparse = (stability_selection(given, model, n_subsamples=5) for given in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense.frequency, sparse.frequency)


def test_the_frame_lists_every_variable_ever_selected():
    frame = pd.DataFrame(DATA.X, columns=DATA.feature_names)
    found = stability_selection(frame, n_components=2, cardinality=[8, 6], n_subsamples=5, n_init=4)
    table = found.to_frame()
    assert table.columns.tolist() == ["component", "variable", "frequency", "sign", "loading", "selected"]
    assert len(table) == np.count_nonzero(found.frequency)
    assert table.groupby("component")["frequency"].apply(lambda part: part.is_monotonic_decreasing).all()
    at = table["component"], [DATA.feature_names.index(name) for name in table["variable"]]
    shown = {"frequency": found.frequency, "loading": found.model.components_, "selected": found.selected}
    for name, numbers in shown.items():
        np.testing.assert_array_equal(table[name], numbers[at])
    unnamed = stability_selection(DATA.X, n_components=1, cardinality=8, n_subsamples=2, n_init=1).to_frame()
    assert unnamed["variable"].dtype.kind == "i"


def test_a_part_with_a_constant_column_raises_no_warning():
    X = groups()
    X[:, 19] = 0.0
    X[0, 19] = 50.0  # constant in subsamples without sample 0
    found = stability_selection(X, n_components=1, cardinality=4, n_subsamples=8)
    assert found.frequency[0, 19] <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.5}, "threshold=0.5: a frequency above 0.5"),
        ({"threshold": 1.1}, "threshold=1.1"),
        ({"fraction": 1.0}, "fraction=1.0: a share of the samples between 0 and 1"),
        ({"fraction": 0}, "fraction=0"),
        ({"fraction": 0.01}, r"fraction=0.01 of 80 samples is 0; a subsample needs at least 2: raise it"),
        ({"n_subsamples": 0}, "n_subsamples=0"),
        ({"covariance": "precomputed"}, "covariance='precomputed' has none. Give the data"),
        ({"model": GPower(1), "gamma": 0.1}, r"Give a model or its parameters \(gamma\), not both"),
        ({"cardinality": 50}, "between 1 and n_features=20"),
        ({"model": groups()}, r"type ndarray; the data come first: stability_selection\(X, model\)\.$"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        stability_selection(groups(), **options)


@pytest.mark.parametrize(("n_pairs", "cardinality"), [(1, 1), (2, 1), (4, 1), (4, 3), (10, 3)])
def test_of_duplicate_variables_those_of_the_model_are_selected(n_pairs, cardinality):
    half = np.random.default_rng(0).standard_normal((60, n_pairs)) * np.arange(n_pairs, 0, -1)
    stable = stability_selection(np.hstack([half, half]), n_components=1, cardinality=cardinality, n_subsamples=20)
    used = stable.model.components_[0] != 0
    alone = used & ~np.roll(used, n_pairs)  # the other variable of the pair is not used
    assert alone.any()
    assert np.all(stable.frequency[0][alone] > np.roll(stable.frequency[0], n_pairs)[alone])


@pytest.mark.parametrize(
    ("lists", "n_features", "in_pipeline"),
    [
        ({"cardinality": [5, 4, 3]}, 20, False),
        ({"gamma": [0.02, 0.03, 0.04]}, 20, False),
        ({"cardinality": [5, 4, 3], "include": [[0], [5], []]}, 150, False),
        ({"cardinality": [5, 4, 3]}, 150, True),
    ],
)
def test_subsamples_have_as_many_components_as_all_samples(lists, n_features, in_pipeline):
    """The weaker of two components is more than chance in the table of 150 variables, but not in every subsample."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, n_features))
    X[:, :5] += 2 * rng.standard_normal((60, 1))
    X[:, 5:9] += rng.standard_normal((60, 1))
    models = GPower("auto", **lists), GPower(2, **{name: entries[:2] for name, entries in lists.items()})
    found, expected = (
        stability_selection(
            X, make_pipeline(StandardScaler(with_std=False), each) if in_pipeline else each, n_subsamples=4
        )
        for each in models
    )
    np.testing.assert_array_equal(found.frequency, expected.frequency)
    np.testing.assert_array_equal(found.sign, expected.sign)
    assert found.model.n_components == "auto"
