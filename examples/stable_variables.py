"""
Would they be chosen again?
===========================

A variable belongs in a conclusion only if other samples would have named it too. Fit to many random halves of the
samples and count.
"""

from sklearn.datasets import load_wine

from gpower import stability_selection

X = load_wine(as_frame=True).data
stable = stability_selection(X, n_components=2, cardinality=(9, 5), scale=True, n_subsamples=100)
stable.plot()

# %%
# What is chosen in at least eight of ten halves is called selected. The other number of a title is no estimate: it is
# the bound of Meinshausen and Bühlmann on selections by chance, q²/((2π − 1)n) for q variables out of n and a threshold
# π. It says nothing here, where q is a large part of n; it is made for many variables, as
# :doc:`How many variables? </how-many-variables>` tells.
for j, selected in enumerate(stable.selected, 1):
    names = [stable.feature_names[i] for i in selected.nonzero()[0]]
    print(f"component {j}:", ", ".join(names))
