"""Every function validates and prepares its data once, by the same code."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import gpower.validation.prepare
from gpower import GPower, GPowerCV, GPowerWarning, best_subset, certify, compare, sparsity_path, stability_selection
from gpower.baselines import Thresholding

X = np.random.default_rng(0).standard_normal((30, 8))


@pytest.fixture
def call_counts(monkeypatch):
    """Return the counts of calls that build an operator and that validate a table."""
    calls = {"as_operator": 0, "check_table": 0}

    def count_calls(name):
        original = getattr(gpower.validation.prepare, name)

        def counted_call(*args, **options):
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(gpower.validation.prepare, name, counted_call)

    for name in calls:
        count_calls(name)
    return calls


MODEL = GPower(1, cardinality=2)
#: Calls, with the numbers of operators that they build and of tables that they validate.
ENTRY_POINTS = {
    "fit": (lambda: GPower(2, cardinality=3).fit(X), 1, 1),
    "fit with a certificate": (lambda: GPower(2, cardinality=3, certify=True).fit(X), 1, 1),
    "path": (lambda: sparsity_path(X, cardinalities=[2, 4]), 1, 1),
    "baseline": (lambda: Thresholding(2, cardinality=3).fit(X), 1, 1),
    "certify": (lambda: certify(np.eye(8)[:1], X), 1, 1),
    "best subset": (lambda: best_subset(X, cardinality=2), 1, 1),
    "all samples and three parts": (
        lambda: stability_selection(X, n_components=1, cardinality=2, n_subsamples=3),
        4,
        2,
    ),
    "three folds, then all samples": (lambda: GPowerCV(1, cardinalities=[2, 4], cv=3).fit(X), 4, 2),
    "comparison": (lambda: compare(X, n_components=1, cardinality=2, methods=["thresholding"]), 3, 3),
    "batch and scores": (lambda: GPower(1, cardinality=2).partial_fit(X).transform(X), 0, 2),
}


@pytest.mark.parametrize(("call", "n_operators", "n_tables"), ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_data_are_read_and_prepared_as_rarely_as_possible(call, n_operators, n_tables, call_counts):
    call()
    assert call_counts == {"as_operator": n_operators, "check_table": n_tables}


def test_a_certificate_in_single_precision_is_computed_in_double():
    single = 100 + X.astype(np.float32)
    model = GPower(1, cardinality=3, certify=True).fit(single)
    assert model.upper_bound_[0] == pytest.approx(certify(model, single)[0].upper_bound, rel=1e-12)


def test_a_warning_points_at_the_line_that_called_fit():
    flat, model = np.ones_like(X), GPower(1, cardinality=2)
    table = np.random.default_rng(0).standard_normal((12, 6))
    holes = np.where(table > 1.2, np.nan, table)
    for fit, words in (
        (lambda: model.fit(flat), "No column varies"),
        (lambda: model.fit_transform(flat), "No column varies"),
        (lambda: make_pipeline(clone(model)).fit(flat), "No column varies"),
        (lambda: sparsity_path(flat, cardinalities=[2]), "No column varies"),
        (lambda: GPower(2, missing="impute").fit(holes), "The estimates of"),
        (lambda: model.fit(np.corrcoef(X.T)), "looks like a correlation matrix"),
        (lambda: certify(np.eye(8)[:1], np.corrcoef(X.T)), "looks like a correlation matrix"),
    ):
        with pytest.warns(GPowerWarning, match=words) as caught:
            fit()
        matching = [each for each in caught if re.search(words, str(each.message))]
        assert [each.filename for each in matching] == [__file__]


def test_a_grid_search_raises_only_the_warnings_of_its_last_fit():
    flat = np.ones_like(X)
    with pytest.warns(GPowerWarning, match="No column varies") as caught:
        GridSearchCV(GPower(1), {"cardinality": [1, 2, 3]}).fit(flat)
    assert [each.filename for each in caught] == [__file__]
    assert len({str(each.message) for each in caught}) == len(caught)
