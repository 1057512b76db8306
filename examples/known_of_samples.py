"""
Metadata: what do the components go with?
=========================================

What is known of the samples and is not in the table says what a component means. Here the components are made of twelve
measurements of 178 wines; alcohol and the cultivar are kept back.
"""

import numpy as np
from sklearn.datasets import load_wine

from gpower import GPower
from gpower.plotting import plot_metadata, plot_pairs, plot_scores

wines = load_wine(as_frame=True)
X = wines.data.drop(columns="alcohol")
X.columns = X.columns.str.removesuffix("_of_diluted_wines")
known = {
    "alcohol": wines.data["alcohol"],
    "cultivar": [f"cultivar {kind + 1}" for kind in wines.target],
    "by chance": np.random.default_rng(0).permutation(["a", "b", "c"] * 60)[:178],
}
model = GPower(3, cardinality=4, scale=True).fit(X)
for j, variables in enumerate(model.loadings(), 1):
    print(f"component {j}:", ", ".join(variables))

# %%
# How strongly every component goes with every column. Stars are what stays significant once all cells are corrected
# for; what the last row shows was drawn at random, and has none.
plot_metadata(model, X, known)

# %%
# The groups, with ellipses that would hold 95 % of new normal samples of each.
plot_scores(model, X, labels=known["cultivar"], ellipse=0.95)

# %%
# A measured quantity is a shade of colour.
plot_scores(model, X, labels=known["alcohol"])

# %%
# All pairs of components; the upper half says how correlated their scores are.
plot_pairs(model, X, labels=known["cultivar"])
