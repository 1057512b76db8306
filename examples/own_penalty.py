"""
Your own penalty: whole groups
==============================

Variables belong to groups, and a component uses a few whole groups.

A penalty is a convex function of the correlations between a component and the variables. It computes its value and its
gradient; starts, working sets, deflation, paths and cross-validation need nothing else.
"""

from dataclasses import dataclass

import numpy as np

from gpower import GPower, sparsity_path
from gpower.penalties import Penalty


@dataclass(frozen=True, eq=False)
class WholeGroups(Penalty):
    """Sum of squares of the k largest groups: a maximum of convex quadratics."""

    labels: np.ndarray  # (n,) the group of every variable, counted from 0
    k: np.ndarray | int = 1  # groups per component

    def evaluate(self, C):  # C is (n, m): a column for every component
        T, values = np.zeros_like(C), np.zeros(C.shape[1], C.dtype)
        for j, k in enumerate(np.broadcast_to(self.k, C.shape[1])):
            squares = np.bincount(self.labels, C[:, j] ** 2)
            largest = np.argsort(-squares, kind="stable")[:k]
            T[:, j] = np.where(np.isin(self.labels, largest), 2 * C[:, j], 0)
            values[j] = squares[largest].sum()
        return values, T

    def restrict(self, idx):  # the penalty for a subset of the variables
        return WholeGroups(self.labels[idx], self.k)

    def at_cardinality(self, k):  # `cardinality` and paths count groups
        return WholeGroups(self.labels, k)


# %%
# The data have two hidden factors, each in two of forty groups of five variables. Each component uses two groups.


def main():
    """Fit data with two hidden factors, each in two of forty groups of five variables."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 5)
    factors = rng.standard_normal((80, 2)) * [3, 2]
    X = rng.standard_normal((80, labels.size))
    X[:, np.isin(labels, (4, 11))] += factors[:, :1]
    X[:, np.isin(labels, (20, 33))] += factors[:, 1:]
    model = GPower(2, penalty=WholeGroups(labels), cardinality=2).fit(X)
    for share, z in zip(model.explained_variance_ratio_, model.components_, strict=True):
        print(f"{share:.1%} by the groups {np.unique(labels[z != 0]).tolist()}")
    path = sparsity_path(X, penalty=WholeGroups(labels), cardinalities=[1, 2, 4, 8])
    print("share of PCA by 1, 2, 4, 8 groups:", path.share_of_pca.round(2).tolist())
    return labels, X, model, path


def draw(labels, model):
    """Draw the loadings of both components, one bar per variable, coloured by group."""
    import matplotlib.pyplot as plt

    colours = np.where(labels % 2, "C0", "C1")
    size = {"figsize": (7, 3.5), "layout": "constrained"}
    _, panels = plt.subplots(2, 1, sharex=True, sharey=True, **size)
    for j, (panel, z) in enumerate(zip(panels, model.components_, strict=True), 1):
        panel.bar(np.arange(z.size), z, width=1, color=colours)
        panel.set_ylabel(f"component {j}")
    panels[-1].set_xlabel("variable; colours alternate from group to group")
    plt.show()


# %%
# Both components select their groups and no other variable.
if __name__ == "__main__":
    labels, _, model, _ = main()
    draw(labels, model)
