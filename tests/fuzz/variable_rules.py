"""Random groups, included and excluded variables and costs, against all admissible supports.

Run as a program, ``python tests/fuzz/variable_rules.py``, not by pytest, which runs a few of the same cases. Every
case is a table of up to twelve variables. `best_subset` must return the best of all admissible supports and prove it.
`GPower` with its defaults must find it in 95 % of the cases, and never less than 98 % of its variance. Each case has
its own seed: ``python tests/fuzz/variable_rules.py 17`` repeats one. Two minutes; twenty times as many cases with
``FUZZ=long``.
"""

from __future__ import annotations

import os
import sys
import warnings
from itertools import product

import numpy as np
from tests.enumeration import compute_scatter, compute_variance, enumerate_supports

from gpower import GPower, best_subset

CASES = 1000 * (20 if os.environ.get("FUZZ") == "long" else 1)
#: `GPower` must find the best support in this share of the cases, and never less than this share of its variance.
MIN_HIT_RATE, MIN_VARIANCE_SHARE = 0.95, 0.98


def make_case(i):
    """Return a table, the group of every variable, and the rules of a fit."""
    rng = np.random.default_rng([16, i])
    n, p = int(rng.integers(4, 13)), int(rng.integers(3, 30))
    X = rng.standard_normal((p, n)) @ (np.eye(n) + rng.choice([0, 0.3, 1]) * rng.standard_normal((n, n)))
    grouped = rng.random() < 0.6
    labels = np.unique(
        rng.integers(0, int(rng.integers(2, n + 1)), n) if grouped else np.arange(n), return_inverse=True
    )[1]
    if labels.max() == 0:
        labels[0] = 1
    order = rng.permutation(n)
    exclude, include = np.split(order[: rng.integers(0, 5)], [rng.integers(0, 4)])
    left = np.setdiff1d(np.arange(n), exclude)
    least, most = len(set(labels[include])), len(set(labels[left]))
    rules = {"groups": labels, "include": include, "exclude": exclude}
    return X, labels, rules | {"cardinality": int(rng.integers(max(least, 1), most + 1))}


def is_admissible(z, labels, rules):
    """Return whether loadings satisfy the rules."""
    used = set(labels[z != 0].tolist())
    whole = all(z[j] != 0 for j in range(z.size) if labels[j] in used and j not in rules["exclude"])
    return whole and not z[rules["exclude"]].any() and z[rules["include"]].all() and len(used) == rules["cardinality"]


def check(i):
    """Check `best_subset` in case i and return the share of the best variance that `GPower` finds."""
    X, labels, rules = make_case(i)
    S = compute_scatter(X)
    supports = enumerate_supports(labels, rules["cardinality"], rules["include"], rules["exclude"])
    largest = max(compute_variance(S, support) for support in supports)
    z, proof = best_subset(X, **rules)
    if not (proof.optimal and abs(z @ S @ z - largest) <= 1e-6 * largest and is_admissible(z, labels, rules)):
        raise AssertionError(f"case {i}: best_subset gives {z @ S @ z:.9g} and says {proof}; the best is {largest:.9g}")
    z = GPower(1, **rules).fit(X).components_[0]
    if not is_admissible(z, labels, rules):
        raise AssertionError(f"case {i}: GPower gives {np.flatnonzero(z)}, which is not what was asked for: {rules}")
    return float(z @ S @ z) / largest


def check_budget(i):
    """Check a budget in case i and return the share of the best variance that `GPower` finds."""
    X, _, _ = make_case(i)
    rng, S, n = np.random.default_rng([17, i]), compute_scatter(X), X.shape[1]
    costs = rng.uniform(0.5, 4, n) if i % 2 else rng.integers(0, 4, n) + 0.0
    costs[0] = 1.0
    budget = float(rng.uniform(1, costs.sum()))
    z = GPower(1, penalty_weights=costs, budget=budget).fit(X).components_[0]
    if costs[z != 0].sum() > budget * (1 + 1e-8):
        raise AssertionError(f"case {i}: {costs[z != 0].sum()} is spent of {budget}")
    masks = np.array(list(product([False, True], repeat=n)))
    top = max(compute_variance(S, np.flatnonzero(mask)) for mask in masks[masks @ costs <= budget])
    return float(z @ S @ z) / top


def report(what, shares):
    """Print how often the best was found and return whether that is enough."""
    shares = np.array(shares)
    share_found = float(np.mean(shares > 1 - 1e-6))
    print(f"{what}: {shares.size} cases, the best found in {share_found:.1%}, at least {shares.min():.4f} of it")
    return share_found >= MIN_HIT_RATE and shares.min() >= MIN_VARIANCE_SHARE


def main(arguments):
    """Run all cases, or the one that is named."""
    warnings.simplefilter("ignore")
    if arguments:
        print(check(int(arguments[0])))
        return 0
    passed = report("groups, include and exclude", [check(i) for i in range(CASES)])
    passed &= report("budget", [check_budget(i) for i in range(CASES)])
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
