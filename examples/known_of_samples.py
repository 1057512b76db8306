"""
Association with metadata
=========================

Metadata, facts about the samples that are not in the table, help to interpret a component. Here the components use
twelve measurements of 178 wines; alcohol and the cultivar are the metadata.
"""

import numpy as np
from sklearn.datasets import load_wine

from gpower import GPower
from gpower.plotting import plot_heatmap, plot_metadata, plot_pairs, plot_scores

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
# The strength of the association of every component with every column. Stars mark associations that are significant
# after correction for all cells. The last row is random and has none.
plot_metadata(model, X, known)

# %%
# The groups, with ellipses that would contain 95 % of new normal samples of each.
plot_scores(model, X, color={"cultivar": known["cultivar"]}, ellipse=0.95)

# %%
# A numeric quantity is shown as a shade of colour.
plot_scores(model, X, color=known["alcohol"])

# %%
# All pairs of components; the upper half shows the correlations of their scores.
plot_pairs(model, X, color={"cultivar": known["cultivar"]})

# %%
# The values of the variables of the first component: wines from the largest score down, with their metadata as bars.
plot_heatmap(model, X, 0, known)
