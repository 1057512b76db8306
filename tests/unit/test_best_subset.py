"""The exact search equals brute force, can be interrupted and resumed, and returns a bound when out of time."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from tests.enumeration import PITPROPS_OPTIMA
from tests.planted_data import make_planted_components

from gpower import best_subset, certify
from gpower.certificates import cascade, wide_data_bounds
from gpower.certificates.row_bound import RowDual
from gpower.datasets import gaussian, load_pitprops

PITPROPS = load_pitprops().correlation


@pytest.mark.parametrize(("k", "value"), list(enumerate(PITPROPS_OPTIMA, 1)))
def test_pitprops_is_solved_for_every_cardinality(k, value):
    component, certificate = best_subset(PITPROPS, cardinality=k, covariance="precomputed")
    assert certificate.optimal
    assert certificate.value == pytest.approx(value, abs=1e-6)
    assert component @ PITPROPS @ component == pytest.approx(certificate.value)
    assert np.count_nonzero(component) == k
    assert np.linalg.norm(component) == pytest.approx(1)
    assert component[np.argmax(np.abs(component))] > 0


def test_data_are_centred_and_of_any_width():
    planted = make_planted_components(50, 120, [6], [8.0], random_state=3)
    component, certificate = best_subset(planted.X + 5, cardinality=6)
    assert certificate.optimal
    assert np.flatnonzero(component).tolist() == planted.supports[0].tolist()
    A = planted.X - planted.X.mean(axis=0)
    assert certificate.value == pytest.approx(np.sum((A @ component) ** 2))


def test_wide_data_are_searched_on_the_variables_that_can_matter(monkeypatch):
    planted = make_planted_components(40, 200, [6], [15.0], random_state=0)
    whole = best_subset(planted.X, cardinality=6)[1]
    monkeypatch.setattr(wide_data_bounds.select_candidates, "__defaults__", (50,))
    component, few = best_subset(planted.X, cardinality=6)
    assert whole.optimal
    assert few.value == pytest.approx(whole.value)
    assert whole.value <= few.upper_bound < 1.02 * whole.value
    assert np.flatnonzero(component).tolist() == planted.supports[0].tolist()


def hard():
    A = gaussian(24, 32, random_state=1)
    return A.T @ A


#: Six variables of the hard matrix, with enough time for a busy machine.
PATIENT = {"cardinality": 6, "covariance": "precomputed", "max_time": 3600.0}


def test_out_of_time_it_reports_its_bound_and_can_be_resumed():
    S = hard()
    _, whole = best_subset(S, **PATIENT)
    assert whole.optimal
    assert whole.nodes > 2
    certificate = None
    for most in (1, 2, 3, 10**9):
        assert certificate is None or not certificate.optimal
        seen = []
        stop = partial(lambda seen, most, progress: seen.append(progress) or len(seen) == most, seen, most)
        component, certificate = best_subset(S, **PATIENT, callback=stop, resume=certificate)
        assert certificate.value <= whole.value * (1 + 1e-9)
        assert certificate.upper_bound >= whole.value * (1 - 1e-12)
        assert component @ S @ component == pytest.approx(certificate.value)
    assert certificate.optimal
    assert certificate.value == pytest.approx(whole.value)
    assert len(seen) > 1
    for earlier, later in pairwise(seen):
        assert later.incumbent <= later.bound * (1 + 1e-12)
        assert later.seconds >= earlier.seconds >= 0
        assert later.bound <= earlier.bound * (1 + 1e-9)
        assert later.incumbent >= earlier.incumbent


def test_a_certificate_is_not_changed_by_a_later_call_that_resumes_it():
    S = hard()
    _, stopped = best_subset(S, callback=lambda progress: progress.open > 1, **PATIENT)
    state = stopped.search
    before = state.make_progress(0.0)
    assert before.open > 1
    first, again = (best_subset(S, resume=stopped, **PATIENT)[1] for _ in range(2))
    after = state.make_progress(0.0)
    assert (after.bound, after.incumbent, after.open) == (before.bound, before.incumbent, before.open)
    assert stopped.nodes == state.search.n_nodes < first.nodes == again.nodes
    assert first.optimal
    assert (first.value, first.upper_bound) == (again.value, again.upper_bound)
    assert first.seconds > stopped.seconds


@pytest.mark.parametrize("call", [1, 50, 400])
def test_ctrl_c_returns_the_incumbent_with_its_bound(interrupt, call):
    S, calls = hard(), interrupt(RowDual, "evaluate", call)
    component, certificate = best_subset(S, **PATIENT)
    assert len(calls) == call
    assert np.count_nonzero(component) == 6
    assert certificate.value < certificate.upper_bound < np.inf
    assert not certificate.optimal
    _, resumed = best_subset(S, **PATIENT, resume=certificate)
    assert resumed.optimal
    assert certificate.value <= resumed.value <= certificate.upper_bound


def test_ctrl_c_before_the_first_support_leaves_the_largest_variables(interrupt):
    interrupt(cascade, "solve_component", 1)
    component, certificate = best_subset(PITPROPS, cardinality=3, covariance="precomputed")
    assert component @ PITPROPS @ component == pytest.approx(certificate.value)
    assert certificate.value <= certificate.upper_bound < np.inf


def test_variables_that_do_not_vary_fill_the_support():
    S = np.diag([2.0, 0.0, 0.0, 1.0])
    component, certificate = best_subset(S, cardinality=3, covariance="precomputed")
    assert certificate.value == pytest.approx(2.0)
    assert certificate.optimal
    assert component.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (PITPROPS, {"cardinality": 14}, "larger than the number of variables"),
        (PITPROPS, {"cardinality": 0}, "cardinality=0"),
        (PITPROPS, {"cardinality": 2.5}, "cardinality=2.5"),
        (np.triu(PITPROPS), {"cardinality": 2}, "not symmetric"),
        (np.full((2, 2), np.nan), {"cardinality": 1}, "NaN .* or fill them"),
    ],
)
def test_bad_input_is_refused(X, options, message):
    with pytest.raises(ValueError, match=message):
        best_subset(X, covariance="precomputed", **options)


def test_only_the_same_problem_is_resumed():
    certificate = best_subset(PITPROPS, cardinality=4, covariance="precomputed")[1]
    same_variances = PITPROPS[::-1, ::-1]
    for matrix, k in ((PITPROPS, 5), (2 * PITPROPS, 4), (same_variances, 4)):
        with pytest.raises(ValueError, match="another problem"):
            best_subset(matrix, cardinality=k, covariance="precomputed", resume=certificate)
    other = certify(np.eye(13)[:1], PITPROPS, covariance="precomputed")[0]
    with pytest.raises(ValueError, match="earlier call of best_subset"):
        best_subset(PITPROPS, cardinality=4, covariance="precomputed", resume=other)
