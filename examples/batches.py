"""
Batches and covariates
======================

Samples are often measured on several plates, and the plate can change more genes than anything of interest does.
:doc:`Batches and covariates </covariates>` are removed while the components are sought.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpower import GPower
from gpower.datasets import load_planted_expression

# %%
# Three plates of 20 samples; each plate shifts 40 of the 150 genes.
table = load_planted_expression()
rng = np.random.default_rng(0)
plate = np.repeat(["plate 1", "plate 2", "plate 3"], 20)
shifted_genes = rng.choice(150, 40, replace=False)
shifts = rng.normal(0, 3, size=(3, 40))
X = table.X.copy()
for label, shift in zip(np.unique(plate), shifts, strict=True):
    X[np.ix_(plate == label, shifted_genes)] += shift


def print_components(model):
    for share, genes in zip(model.explained_variance_ratio_, model.loadings(table.feature_names), strict=True):
        print(f"{share:5.1%}  {' '.join(genes)}")


# %%
# Without the labels, the first component is the plate, and the module of smallest variance is lost.
plain = GPower(3, cardinality=(8, 6, 5)).fit(X)
print_components(plain)

# %%
# With the labels, the three planted modules are found. The plates took 51 % of the variance.
model = GPower(3, cardinality=(8, 6, 5)).fit(X, batch=plate)
print_components(model)

# %%
# The scores of the first two components without and with the labels.
figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, scores, title in zip(
    axes, (plain.transform(X), model.transform(X, batch=plate)), ("without batch", "with batch"), strict=True
):
    for label in np.unique(plate):
        ax.scatter(*scores[plate == label, :2].T, label=label, s=18)
    ax.set(xlabel="component 1", ylabel="component 2", title=title)
axes[0].legend()
plt.show()
