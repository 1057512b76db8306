"""Constraints between components: errors, reports, comparison, certificates and text."""

import io
import re
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from tests.enumeration import compute_variance

from gpower import GPower, GPowerCV, best_subset, certify_total, compare
from gpower.baselines import MSPCA, Thresholding
from gpower.certificates.certificate import Clock
from gpower.certificates.disjoint_supports import DisjointSearch
from gpower.certificates.joint import certify_joint_variance
from gpower.datasets import load_pitprops
from gpower.operators import as_operator
from gpower.report.terminal import print_components

PITPROPS = load_pitprops().correlation
X = np.random.default_rng(0).standard_normal((12, 6))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"constraint": "separate", "cardinality": 2}, "constraint='separate' is not known; use one of None, 'orth"),
        ({"constraint": "orthogonal", "gamma": 0.1}, "works on components with .*, not with cardinality=None; "),
        ({"constraint": "orthogonal", "cardinality": 2, "penalty": "l1"}, "penalty='l1'"),
        ({"constraint": "orthogonal", "cardinality": 2, "variance": "l1"}, "variance='l1'"),
        ({"constraint": "orthogonal", "cardinality": 2, "positive": True}, "use constraint='disjoint'"),
        ({"constraint": "disjoint", "cardinality": 4}, "cardinality=4 need 8 variables, and .* n_features=6"),
        ({"constraint": "disjoint", "cardinality": (1, 6)}, "need 7 variables"),
        ({"constraint": "uncorrelated", "cardinality": 1, "n_components": 3}, "a cardinality of at least 3"),
    ],
)
def test_impossible_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        GPower(**{"n_components": 2} | params).fit(X)


def test_more_uncorrelated_components_than_the_rank_are_refused():
    with pytest.raises(ValueError, match="n_components=4 exceeds the rank of the data, which is at most 3"):
        GPower(4, cardinality=4, constraint="uncorrelated").fit(X[:4])
    with pytest.raises(ValueError, match="2 components of cardinality=4 were not found"):
        GPower(2, cardinality=4, constraint="uncorrelated").fit(np.outer(X[:, 0], np.ones(6)))


def test_every_model_reports_the_overlap_of_its_components():
    data = np.random.default_rng(1).standard_normal((40, 8))
    for model in (GPower(3, cardinality=4), GPower(2, gamma=0.1), Thresholding(3, cardinality=4), GPowerCV(2, cv=3)):
        Z = model.fit(data).components_.T
        used = (Z != 0).astype(int)
        np.testing.assert_array_equal(model.overlap_, used.T @ used)
        np.testing.assert_allclose(model.loading_correlation_, Z.T @ Z, atol=1e-12)
        np.testing.assert_allclose(model.score_correlation_, np.corrcoef(model.transform(data).T), atol=1e-12)


def test_pitprops_reach_the_published_variances():
    model = GPower(6, cardinality=4, constraint="orthogonal", covariance="precomputed").fit(PITPROPS)
    assert model.objective_.sum() / 13 >= 0.822
    assert np.abs(np.triu(model.loading_correlation_, 1)).sum() < 1e-10
    assert np.all(np.diff(model.explained_variance_) <= 1e-12)


@pytest.mark.parametrize(("m", "k", "best"), [(2, 4, 5.25516), (2, 6, 5.89724), (3, 3, 6.63965), (3, 4, 7.25015)])
def test_enumerated_disjoint_sets_are_reached_and_proven(m, k, best):
    model = GPower(m, cardinality=k, constraint="disjoint", covariance="precomputed").fit(PITPROPS)
    assert model.objective_.sum() == pytest.approx(best, abs=1e-5)
    components, proof = best_subset(PITPROPS, cardinality=(k,) * m, constraint="disjoint", covariance="precomputed")
    assert proof.optimal
    assert proof.value == pytest.approx(best, abs=1e-5)
    assert components.shape == (m, 13)
    operator, _ = as_operator(PITPROPS, covariance=True)
    looser = certify_joint_variance(operator, components.T, cardinality=k, constraint="orthogonal")
    assert best <= looser.upper_bound <= 1.1 * best


def test_a_search_out_of_time_returns_a_valid_bound():
    _, proof = best_subset(PITPROPS, cardinality=(4, 4), constraint="disjoint", covariance="precomputed", max_time=0.0)
    assert proof.value <= 5.25516 + 1e-5 <= proof.upper_bound + 2e-5


class CountingClock(Clock):
    """A clock that has expired as soon as its callback says so."""

    @property
    def is_expired(self):
        return bool(self.callback())


def test_a_search_from_nothing_finds_the_best_of_all(monkeypatch):
    S = np.corrcoef(np.random.default_rng(5).standard_normal((12, 7)), rowvar=False)
    orders = (order for order in permutations(range(7)) if order[0] < order[1] and order[2] < order[3] < order[4])
    best = max(sum(compute_variance(S, part) for part in (order[:2], order[2:5], order[5:])) for order in orders)
    search = DisjointSearch((2, 2, 3), 0.0)
    search.run(S, Clock(60.0))
    assert search.incumbent_value == pytest.approx(best)
    assert search.n_nodes >= 3
    assert search.upper_bound == pytest.approx(best)

    for n_nodes in range(1, search.n_nodes):  # a search that ends early bounds what it has not visited
        stopped = DisjointSearch((2, 2, 3), 0.0)
        stopped.run(S, CountingClock(60.0, lambda s=stopped, most=n_nodes: s.n_nodes >= most))
        assert stopped.upper_bound >= best * (1 - 1e-12)

    poor = np.eye(7)[:, :3]  # as if only single variables had been found
    monkeypatch.setattr("gpower.certificates.joint.solve_all_components", lambda *how: SimpleNamespace(Z=poor))
    components, proof = best_subset(S, cardinality=(2, 3, 2), constraint="disjoint", covariance="precomputed")
    assert np.count_nonzero(components, axis=1).tolist() == [2, 3, 2]
    assert np.trace(components @ S @ components.T) == pytest.approx(best)
    assert proof.optimal
    assert (proof.value, proof.upper_bound, proof.cardinality) == (pytest.approx(best), pytest.approx(best), 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cardinality": (7, 7)}, "need 14 variables in total, and there are n_features=13"),
        ({"cardinality": (2, 0)}, "cardinality=0: a whole number of at least 1"),
        ({"cardinality": (2, 2), "callback": print}, "neither callback nor resume"),
        ({"cardinality": (2, 2), "constraint": "orthogonal"}, "constraint='orthogonal' is not known; use one of None"),
    ],
)
def test_a_search_with_impossible_options_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        best_subset(PITPROPS, covariance="precomputed", **{"constraint": "disjoint"} | options)


def test_a_total_certificate_needs_components_that_satisfy_the_constraint():
    model = GPower(3, cardinality=5, covariance="precomputed").fit(PITPROPS)
    with pytest.raises(ValueError, match="The components are not disjoint: the violation, summed over pairs, is"):
        certify_total(model, PITPROPS, constraint="disjoint")
    free = certify_total(model, PITPROPS)
    assert free.method == "singles"
    assert free.upper_bound == pytest.approx(3 * 3.40615, rel=1e-3)


def test_fit_certifies_all_components_together():
    model = GPower(2, cardinality=3, constraint="disjoint", covariance="precomputed", certify=True).fit(PITPROPS)
    assert model.total_optimality_ratio_ == pytest.approx(1)
    assert model.total_upper_bound_ == pytest.approx(4.67884, abs=1e-5)


def test_the_alternating_penalty_stops_at_its_tolerance_and_ours_does_not():
    asked = {"cardinality": 3, "covariance": "precomputed"}
    theirs = MSPCA(2, **asked, random_state=0).fit(PITPROPS)
    assert theirs.converged_.all()
    assert np.abs(np.triu(theirs.loading_correlation_, 1)).sum() <= 1e-4
    ours = GPower(2, **asked, constraint="orthogonal").fit(PITPROPS)
    assert ours.objective_.sum() >= np.trace(theirs.components_ @ PITPROPS @ theirs.components_.T) - 1e-9
    scores = MSPCA(2, **asked, constraint="uncorrelated", random_state=0).fit(PITPROPS)
    assert np.abs(np.triu(scores.score_correlation_, 1)).sum() <= 1e-4
    with pytest.raises(ValueError, match="this method has orthogonal and uncorrelated components only"):
        MSPCA(2, **asked, constraint="disjoint").fit(PITPROPS)


def test_a_comparison_shows_which_methods_violate_the_constraint():
    asked = {"n_components": 3, "cardinality": 4, "covariance": "precomputed"}
    table = compare(PITPROPS, **asked, methods=["gpower-l0", "greedy"], constraint="orthogonal")
    assert table["gpower-l0"].violation < 1e-10
    assert table["gpower-l0"].model.constraint == "orthogonal"
    Z = table["greedy"].model.components_.T
    assert table["greedy"].violation == pytest.approx(np.abs(np.triu(Z.T @ Z, 1)).sum())
    plain = compare(PITPROPS, **asked, methods=["greedy"])
    assert np.isnan(plain["greedy"].violation)
    with pytest.raises(ValueError, match="constraint='none' is not known"):
        compare(PITPROPS, **asked, constraint="none")


def test_the_report_names_pairs_that_share_variables_or_are_correlated():
    for constraint, pair in (
        ("disjoint", "correlation of scores +0.49, of loadings +0.00"),
        (None, "share 1 variable;"),
    ):
        model = GPower(3, cardinality=4, covariance="precomputed", constraint=constraint).fit(PITPROPS)
        console = Console(file=io.StringIO(), width=200)
        print_components(console, model, load_pitprops().feature_names, "pit props")
        assert re.search(r"Components \d and \d.*" + re.escape(pair), console.file.getvalue())
