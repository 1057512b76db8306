"""Tables of twelve variables, and all supports that what is known of them allows."""

from itertools import combinations

import numpy as np


def table(seed=0, p=25, n=12):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((p, n)) @ (np.eye(n) + 0.4 * rng.standard_normal((n, n)))


def scatter(X):
    A = X - X.mean(axis=0)
    return A.T @ A


def variance(S, support):
    support = list(support)
    return np.linalg.eigvalsh(S[np.ix_(support, support)])[-1] if support else 0.0


def supports(labels, k, include=(), exclude=()):
    """All supports of k groups that have what must be there and nothing that must not."""
    must = set(labels[list(include)])
    left = [j for j in range(labels.size) if j not in exclude]
    free = sorted(set(labels[left]) - must)
    for chosen in combinations(free, k - len(must)):
        yield [j for j in left if labels[j] in must or labels[j] in chosen]


def used(z):
    return set(np.flatnonzero(z))


GROUPS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 4, 5])
