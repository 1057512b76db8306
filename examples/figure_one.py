"""
The paper's Figure 1
====================

Journée, Nesterov, Richtárik and Sepulchre (2010) compare methods on random matrices: the variance of one component,
relative to the first principal component, against its number of variables. This example uses four matrices instead of
a hundred; ``make paper`` runs the whole experiment.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from gpower import GPower
from gpower.baselines import Greedy, RankOneSVD
from gpower.datasets import gaussian

numbers = (5, 10, 20, 40, 80, 160)
methods = {
    "GPower, ℓ0": lambda k: GPower(1, cardinality=k, center=False),
    "GPower, ℓ1": lambda k: GPower(1, cardinality=k, penalty="l1", center=False),
    "greedy": lambda k: Greedy(1, cardinality=k, center=False),
    "rSVD, ℓ1": lambda k: RankOneSVD(1, cardinality=k, penalty="l1", center=False),
}

# %%
# All loadings have unit length, so ‖Xz‖² is comparable; PCA reaches the square of the largest singular value.
shares = {name: np.zeros(len(numbers)) for name in methods}
# For some numbers of variables no ℓ1 penalty exists, which raises a warning.
warnings.simplefilter("ignore")
matrices = [gaussian(50, 200, random_state=seed) for seed in range(4)]
for X in matrices:
    pca = np.linalg.norm(X, 2) ** 2
    for name, method in methods.items():
        fits = [method(k).fit(X).components_[0] for k in numbers]
        shares[name] += [np.sum((X @ z) ** 2) / pca / len(matrices) for z in fits]

# %%
for name, share in shares.items():
    plt.plot(numbers, share, "o-", label=name)
plt.xlabel("number of variables")
plt.ylabel("variance / variance of PCA")
plt.legend(frameon=False)
plt.show()
