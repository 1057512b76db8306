"""Data are prepared once, in one room."""

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
def prepared(monkeypatch):
    """How often an operator was made of data, and data were validated."""
    calls = {"as_operator": 0, "check_table": 0}

    def counted(name):
        original = getattr(gpower.validation.prepare, name)

        def call(*args, **options):
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(gpower.validation.prepare, name, call)

    for name in calls:
        counted(name)
    return calls


ENTRANCES = {
    "fit": lambda: GPower(2, cardinality=3).fit(X),
    "fit with a certificate": lambda: GPower(2, cardinality=3, certify=True).fit(X),
    "path": lambda: sparsity_path(X, cardinalities=[2, 4]),
    "baseline": lambda: Thresholding(2, cardinality=3).fit(X),
    "certify": lambda: certify(np.eye(8)[:1], X),
    "best subset": lambda: best_subset(X, cardinality=2),
}


@pytest.mark.parametrize("enter", ENTRANCES.values(), ids=ENTRANCES)
def test_data_are_read_and_prepared_once(enter, prepared):
    enter()
    assert prepared == {"as_operator": 1, "check_table": 1}


def test_a_certificate_of_a_fit_is_the_one_asked_for_later():
    model = GPower(2, cardinality=3, certify=True).fit(X)
    later = certify(model, X)
    np.testing.assert_allclose(model.upper_bound_, [proof.upper_bound for proof in later], rtol=1e-6)


def test_a_certificate_in_single_precision_is_made_in_double():
    single = 100 + X.astype(np.float32)
    model = GPower(1, cardinality=3, certify=True).fit(single)
    assert model.upper_bound_[0] == pytest.approx(certify(model, single)[0].upper_bound, rel=1e-12)


def test_others_enter_through_the_same_room(prepared):
    stability_selection(X, n_components=1, cardinality=2, n_subsamples=3)
    assert prepared["as_operator"] == 4  # all samples, and three parts
    prepared.update(as_operator=0)
    GPowerCV(1, cardinalities=[2, 4], cv=3).fit(X)
    assert prepared["as_operator"] == 4  # three folds, then all samples
    prepared.update(as_operator=0)
    compare(X, n_components=1, cardinality=2, methods=["thresholding"])
    assert prepared["as_operator"] == 3  # the reference, the ruler, the method
    prepared.update(as_operator=0, check_table=0)
    model = GPower(1, cardinality=2).partial_fit(X)
    assert prepared == {"as_operator": 0, "check_table": 1}
    model.transform(X)
    assert prepared["check_table"] == 2


def test_a_warning_points_at_the_line_that_asked_for_the_fit():
    flat, model = np.ones_like(X), GPower(1, cardinality=2)
    table = np.random.default_rng(0).standard_normal((12, 6))
    holes = np.where(table > 1.2, np.nan, table)
    for fit, words in (
        (lambda: model.fit(flat), "No column varies"),
        (lambda: model.fit_transform(flat), "No column varies"),
        (lambda: make_pipeline(clone(model)).fit(flat), "No column varies"),
        (lambda: sparsity_path(flat, cardinalities=[2]), "No column varies"),
        (lambda: GPower(2, missing="impute").fit(holes), "The filling of"),
        (lambda: model.fit(np.corrcoef(X.T)), "looks like a correlation matrix"),
        (lambda: certify(np.eye(8)[:1], np.corrcoef(X.T)), "looks like a correlation matrix"),
    ):
        with pytest.warns(GPowerWarning, match=words) as caught:
            fit()
        told = [each for each in caught if re.search(words, str(each.message))]
        assert [each.filename for each in told] == [__file__]


def test_parts_of_a_cross_validation_are_silent_and_the_last_fit_speaks():
    flat = np.ones_like(X)
    with pytest.warns(GPowerWarning, match="No column varies") as caught:
        GridSearchCV(GPower(1), {"cardinality": [1, 2, 3]}).fit(flat)
    assert [each.filename for each in caught] == [__file__]
    assert len({str(each.message) for each in caught}) == len(caught)
