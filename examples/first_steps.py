"""
First steps
===========

An ordinary principal component is a combination of all variables. A sparse component uses a few of them.
"""

from gpower import GPower
from gpower.datasets import load_planted_expression
from gpower.plotting import plot_loadings, plot_scores

# %%
# The data are 60 simulated samples of 150 genes with known components: three modules of 8, 6 and 5 genes.
table = load_planted_expression()
table.X.shape

# %%
# Fit three components of eight, six and five genes. ``loadings_frame`` has a row for every gene in use.
model = GPower(n_components=3, cardinality=(8, 6, 5)).fit(table.X)
model.loadings_frame(table.feature_names).round(2)

# %%
# Each component consists of the genes of one module.
plot_loadings(model, table.feature_names)

# %%
# ``transform`` computes the scores of samples, as in every scikit-learn transformer.
plot_scores(model, table.X)
