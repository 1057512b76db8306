"""
Constraints: no variable twice
==============================

Sparse components share variables unless they are told not to. ``constraint="disjoint"`` gives every variable to one
component at most, so that components are groups; ``"orthogonal"`` and ``"uncorrelated"`` ask for less and for other
things. The data are the correlations of thirteen measurements of pit props.
"""

from gpower import GPower, certify_total
from gpower.datasets import load_pitprops
from gpower.plotting import plot_loadings, plot_overlap

table = load_pitprops()
wish = {"n_components": 3, "cardinality": 4, "covariance": "precomputed"}

# %%
# Without a constraint: the picture counts the variables that two components have in common.
free = GPower(**wish).fit(table.correlation)
plot_overlap(free)

# %%
# With it all three are found as one problem, and nothing is shared.
apart = GPower(**wish, constraint="disjoint").fit(table.correlation)
plot_loadings(apart, table.feature_names)

# %%
# What it costs, and how much better any three disjoint groups of four could be.
for word, model in (("free", free), ("disjoint", apart)):
    print(f"{word}: {model.explained_variance_ratio_.sum():.1%} of the variance")
print(certify_total(apart, table.correlation))
