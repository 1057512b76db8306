"""
First steps
===========

An ordinary principal component mixes all the variables. A sparse one names a few, and says how much they explain.
"""

from gpower import GPower
from gpower.datasets import load_planted_expression
from gpower.plotting import plot_loadings, plot_scores

# %%
# Sixty samples of 150 genes, made up so that the answer is known: three modules of 8, 6 and 5 genes vary together.
table = load_planted_expression()
table.X.shape

# %%
# Three components of eight, six and five genes. ``components_`` has one row of unit length for each.
model = GPower(n_components=3, cardinality=(8, 6, 5)).fit(table.X)
loadings = model.loadings(table.feature_names)
for share, genes in zip(model.explained_variance_ratio_, loadings, strict=True):
    print(f"{share:.1%}", *genes)

# %%
# Each component found its module.
plot_loadings(model, table.feature_names)

# %%
# ``transform`` gives the scores of samples, old and new, as any transformer of scikit-learn does.
plot_scores(model, table.X)
