"""Small random tables, and the enumeration of the supports that rules on their variables allow."""

from itertools import combinations

import numpy as np


def make_table(seed=0, p=25, n=12):
    """Return p correlated random samples of n variables."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((p, n)) @ (np.eye(n) + 0.4 * rng.standard_normal((n, n)))


def compute_scatter(X):
    """Compute AᵀA of the centred table A."""
    A = X - X.mean(axis=0)
    return A.T @ A


def compute_variance(S, support):
    """Compute the largest eigenvalue of S on a support, 0 if the support is empty."""
    support = list(support)
    return np.linalg.eigvalsh(S[np.ix_(support, support)])[-1] if support else 0.0


def find_best_variance(S, k):
    """Find the largest variance of a component of k variables by enumeration."""
    return max(compute_variance(S, support) for support in combinations(range(len(S)), k))


def enumerate_supports(labels, k, include=(), exclude=()):
    """Yield every support of k whole groups with all included and no excluded variables."""
    required = set(labels[list(include)])
    left = [j for j in range(labels.size) if j not in exclude]
    free = sorted(set(labels[left]) - required)
    for chosen in combinations(free, k - len(required)):
        yield [j for j in left if labels[j] in required or labels[j] in chosen]


def support_of(z):
    """Return the set of variables with a non-zero loading."""
    return set(np.flatnonzero(z))


#: Largest variances of components of 1 to 13 variables of pitprops, in agreement with the published optima (Berk and
#: Bertsimas 2019, Li and Xie 2025).
PITPROPS_OPTIMA = (1, 1.954, 2.4753314, 2.9374789, 3.4061549, 3.7709596, 3.9961896)
PITPROPS_OPTIMA += (4.0686073, 4.1386469, 4.1726377, 4.2082760, 4.2182452, 4.2186329)
GROUPS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 4, 5])
