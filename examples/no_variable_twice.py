"""
Constraints between components
==============================

In general sparse components share variables. With ``constraint="disjoint"`` every variable is in at most one
component, so that components are groups. ``"orthogonal"`` is a weaker constraint on the loadings, ``"uncorrelated"`` a
constraint on the scores. The data are the correlations of thirteen measurements of pit props.
"""

from gpower import GPower, certify_total
from gpower.datasets import load_pitprops
from gpower.plotting import plot_loadings, plot_overlap

table = load_pitprops()
options = {"n_components": 3, "cardinality": 4, "covariance": "precomputed"}

# %%
# Without a constraint: the figure shows the number of variables that two components have in common.
free = GPower(**options).fit(table.correlation)
plot_overlap(free)

# %%
# With the constraint the three components are found jointly and share no variable.
apart = GPower(**options, constraint="disjoint").fit(table.correlation)
plot_loadings(apart, table.feature_names)

# %%
# The explained variance of both models, and a bound on that of any three disjoint groups of four variables.
for word, model in (("free", free), ("disjoint", apart)):
    print(f"{word}: {model.explained_variance_ratio_.sum():.1%} of the variance")
print(certify_total(apart, table.correlation))
