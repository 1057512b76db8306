"""Claims of section 5 of the GPower paper on small instances, and the methods that the experiments run.

Variances at equal cardinality of a single component are in tests/unit/test_baselines.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from experiments.journee2010 import figure4, methods, published
from experiments.journee2010.methods import (
    BLOCK_L0,
    BLOCK_L1,
    GPOWER_L0,
    GPOWER_L1,
    GREEDY,
    REGRESSION,
    RSVD_L0,
    RSVD_L1,
    SEVERAL,
    PowerMethod,
)
from experiments.journee2010.several_spectrum import with_spectrum
from experiments.journee2010.study import Study
from experiments.journee2010.sweeps import curve, sweep
from scipy.optimize import linear_sum_assignment
from tests.planted_data import make_planted_components

from gpower import GPower
from gpower.baselines import RankOneSVD
from gpower.datasets import gaussian

PAPER = {"deflation": "projection", "solver": "paper", "center": False}
LEVELS = (0.02, 0.05, 0.08, 0.11, 0.14, 0.18, 0.22, 0.27, 0.33, 0.4, 0.5, 0.6, 0.75, 0.9)


# The experiments measure the methods of the library


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("method", [GPOWER_L1, GPOWER_L0], ids=lambda method: method.name)
def test_the_timed_parts_of_gpower_add_up_to_the_estimator(method, m):
    A = gaussian(30, 80, random_state=0)
    gamma = {"l1": 0.2, "l0": 0.04}[method.penalty]
    model = GPower(m, penalty=method.penalty, gamma=gamma, **PAPER).fit(A)
    found = method.solve(A, 0.2, m)
    np.testing.assert_allclose(np.abs(matched(found.Z, model)), np.abs(model.components_.T), atol=1e-8)
    assert found.steps == model.n_iter_.sum()
    assert found.total > 0


def matched(Z, model):
    """Return loadings in the order of the components of the model, which are sorted."""
    return Z[:, linear_sum_assignment(-np.abs(model.components_ @ Z))[1]]


def test_the_timed_parts_of_a_block_add_up_to_the_estimator():
    A = gaussian(30, 80, random_state=0)

    def fit_both(method, penalty, gamma):
        model = GPower(3, penalty=penalty, gamma=gamma, method="block", random_state=0, **PAPER).fit(A)
        return np.abs(matched(method.solve(A, 0.2, 3).Z, model)), np.abs(model.components_.T)

    np.testing.assert_allclose(*fit_both(BLOCK_L0, "l0", 0.04), atol=1e-8)
    found, expected = fit_both(BLOCK_L1, "l1", 0.2)
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, atol=0.05)  # Algorithm 6 stopped at 1e-4


@pytest.mark.parametrize("penalty", ["l1", "l0"])
def test_the_timed_parts_of_rsvd_add_up_to_the_estimator(penalty, monkeypatch):
    """Compared at convergence with a single optimum, because the estimator takes accelerated steps."""
    monkeypatch.setattr(methods, "PAPER", replace(methods.PAPER, tol=1e-14))
    A = make_planted_components(40, 60, [8, 6], [9.0, 6.0], random_state=0).X
    found = PowerMethod("rSVD", penalty, begin="pca", reach="norms").solve(A, 0.1, 2)
    model = RankOneSVD(2, penalty=penalty, gamma={"l1": 0.1, "l0": 0.01}[penalty], center=False, tol=1e-14).fit(A)
    np.testing.assert_allclose(np.abs(found.Z), np.abs(model.components_.T), atol=1e-5)


def test_a_level_of_rsvd_is_a_share_of_what_is_reached_at_its_start():
    A = gaussian(40, 120, random_state=1)
    U, _, _ = np.linalg.svd(A, full_matrices=False)
    largest = np.max(np.abs(A.T @ U[:, 0]))
    share = 0.5 * largest / np.max(np.linalg.norm(A, axis=0))
    by_norms = PowerMethod("rSVD", "l1", begin="pca", reach="norms").solve(A, share)
    np.testing.assert_allclose(np.abs(RSVD_L1.solve(A, 0.5).Z), np.abs(by_norms.Z), atol=1e-8)


# Figure 1, and its counterpart for several components


def test_methods_in_the_lower_group_do_not_fill_their_loadings():
    """The paper blames the ℓ1 penalty; GPower ℓ1 itself, without its fill, is in the lower group."""
    rows = [
        {"seed": seed} | row
        for seed in range(4)
        for row in sweep(gaussian(60, 180, random_state=seed), [GPOWER_L1, GPOWER_L0, RSVD_L1], [], levels=LEVELS)
    ]
    at = (10, 25, 50)
    filled, unfilled = (curve(rows, GPOWER_L1.name, kind, at) for kind in ("variance", "unfilled"))
    lower = curve(rows, RSVD_L1.name, "variance", at)
    upper = curve(rows, GPOWER_L0.name, "variance", at)
    assert np.all(np.minimum(filled, upper) > np.maximum(unfilled, lower) + 0.01)
    assert np.all(unfilled < lower + 0.01)
    assert np.all(np.abs(curve(rows, RSVD_L1.name, "postprocessed", at) - filled) < 0.05)


def test_several_components_fall_into_the_two_groups_and_together_after_algorithm_6():
    rows = [
        {"seed": seed} | row
        for seed in range(2)
        for row in sweep(gaussian(60, 180, random_state=seed), SEVERAL, [6, 12, 25, 40, 60], 5, LEVELS)
    ]
    at = (15, 30, 50)
    share = {method.name: curve(rows, method.name, "variance", at, scale=5) for method in SEVERAL}
    lower = [share.pop(REGRESSION.name), share.pop(RSVD_L1.name)]
    assert np.all(np.min(list(share.values()), axis=0) > np.max(lower, axis=0) + 0.01)
    after = [curve(rows, method.name, "postprocessed", at, scale=5) for method in SEVERAL]
    assert np.all(np.ptp(after, axis=0) < 0.07)
    assert np.all(np.min(after, axis=0) > np.max(lower, axis=0) + 0.01)


# Figure 2


@pytest.mark.parametrize("method", [GPOWER_L1, GPOWER_L0, BLOCK_L1, BLOCK_L0], ids=lambda method: method.name)
def test_columns_no_longer_than_the_threshold_are_never_used(method):
    scales = np.random.default_rng(0).uniform(0.1, 1, 90)  # unequal norms, so that the bound is not trivial
    A = gaussian(30, 90, random_state=0) * scales
    norms, cut = np.linalg.norm(A, axis=0), 0
    for level in (0.1, 0.3, 0.5, 0.7, 0.9):
        Z = method.solve(A, level, 2 if method.block else 1).Z
        short = norms <= level * norms.max()
        assert not Z[short].any()
        assert Z.any()
        cut += np.count_nonzero(short)
    assert cut > 90


# Figure 3


@pytest.fixture
def eigenproblems(monkeypatch):
    """Return the orders of the eigenproblems that greedy selection solves."""
    orders = []
    for name in ("eigh", "eigvalsh"):
        solve = getattr(np.linalg, name)
        monkeypatch.setattr(np.linalg, name, lambda S, solve=solve: orders.append(len(S)) or solve(S))
    return orders


def test_the_work_of_greedy_grows_with_the_cardinality_and_that_of_the_others_does_not(eigenproblems):
    """In operations: reads of the matrix at 2 each entry, and for greedy the cubes of its eigenproblems."""
    p, n = 60, 180
    A = gaussian(p, n, random_state=0)

    def greedy(k):
        eigenproblems.clear()
        reads = GREEDY.solve(A, k).passes
        return 2 * p * n * reads + sum(order**3 for order in eigenproblems)

    def others(k):
        """Return the work of each method at the level whose solution has the cardinality nearest to k."""
        for method in (GPOWER_L1, GPOWER_L0, RSVD_L1, RSVD_L0):
            found = [method.solve(A, level) for level in LEVELS]
            yield 2 * p * n * min(found, key=lambda one: abs(np.count_nonzero(one.Z) - k)).passes
        yield 2 * p * n * REGRESSION.solve(A, k).passes

    growth = greedy(120) / greedy(10)
    rest = np.array(list(others(120))) / np.array(list(others(10)))
    assert growth > 60
    assert np.all(rest < growth / 6)
    assert greedy(120) > 5 * max(others(120))


# Figure 4


def test_gpower_keeps_the_cardinality_low_where_rsvd_solves_pca_first():
    rows = figure4.courses(seed=1)
    gpower = [row for row in rows if row["method"] == published.GPOWER_L1]
    dense, sparse = ([row for row in rows if row["phase"] == phase] for phase in ("pca", "sparse"))
    n = figure4.SHAPE[1]
    assert max(row["cardinality"] for row in gpower) < 1.5 * gpower[-1]["cardinality"] < n / 5
    assert all(row["cardinality"] == n for row in dense)
    assert dense[-1]["variance"] > 0.99
    assert sparse[-1]["cardinality"] < n / 5
    assert gpower[-1]["passes"] < dense[-1]["passes"] < sparse[-1]["passes"]
    assert np.all(np.diff([row["passes"] for row in dense + sparse]) > 0)


# Blocks


def test_close_eigenvalues_slow_deflation_down_and_leave_a_block_as_it_is():
    """Five components without a penalty, the power method of section 1."""
    apart, close = with_spectrum(0.5, seed=0), with_spectrum(0.97, seed=0)
    deflation = GPOWER_L0.solve(close, 0.0, 5).steps / GPOWER_L0.solve(apart, 0.0, 5).steps
    block = BLOCK_L0.solve(close, 0.0, 5).steps / BLOCK_L0.solve(apart, 0.0, 5).steps
    assert deflation > 3
    assert block < 2
    with_penalty = {method.name: method.solve(close, 0.1, 5).passes for method in (GPOWER_L0, BLOCK_L0)}
    assert with_penalty[BLOCK_L0.name] < 0.5 * with_penalty[GPOWER_L0.name]


# The store


def test_a_finished_instance_is_not_run_again_and_a_broken_line_does_not_count(tmp_path, capsys):
    study, seen = Study(False, tmp_path, "this machine"), []

    def compute(seed):
        seen.append(seed)
        if seed == 2 and len(seen) == 3:
            raise KeyboardInterrupt
        return [{"value": 10 * seed}]

    keys = [{"seed": seed} for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        study.instances("part", keys, compute)
    path = tmp_path / "instances" / "part.jsonl"
    path.write_text(path.read_text() + '{"instance": {"seed": 3}, "ro')
    rows = study.instances("part", keys, compute)
    assert seen == [0, 1, 2, 2, 3]
    assert rows == [{"seed": seed, "value": 10 * seed} for seed in range(4)]
    assert "2 of 4 instances kept" in capsys.readouterr().out
    assert study.instances("part", keys, compute) == rows
    assert len(seen) == 5
    stored = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    assert all(line["environment"] == "this machine" for line in stored)
