"""Data are prepared once, in one room."""

import numpy as np
import pytest

import gpower.preparation
from gpower import GPower, GPowerCV, best_subset, certify, compare, sparsity_path, stability
from gpower.baselines import Thresholding

X = np.random.default_rng(0).standard_normal((30, 8))


@pytest.fixture
def prepared(monkeypatch):
    """How often an operator was made of data, and data were validated."""
    calls = {"as_operator": 0, "check_table": 0}

    def counted(name):
        original = getattr(gpower.preparation, name)

        def call(*args, **options):
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(gpower.preparation, name, call)

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
    model = GPower(1, cardinality=3, certify=True).fit(X.astype(np.float32))
    assert model.upper_bound_[0] == pytest.approx(certify(model, X.astype(np.float32))[0].upper_bound, rel=1e-6)


def test_others_enter_through_the_same_room(prepared):
    stability(X, n_components=1, cardinality=2, n_subsamples=3)
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
    flat = X.copy()
    flat[:, 2] = 1.0
    for fit in (lambda: GPower(1, cardinality=2).fit(flat), lambda: GPower(1, cardinality=2).fit_transform(flat)):
        with pytest.warns(UserWarning, match="do not vary") as caught:
            fit()
        assert caught[0].filename == __file__
