"""
Stability selection
===================

A variable should be part of a conclusion only if it is also selected with other samples. Stability selection fits the
model to many random halves of the samples and counts how often each variable is selected.
"""

from sklearn.datasets import load_wine

from gpower import stability_selection

X = load_wine(as_frame=True).data
stable = stability_selection(X, n_components=2, cardinality=(9, 5), scale=True, n_subsamples=100)
stable.plot()

# %%
# A variable that is chosen in at least 80 % of the halves is called selected. The other number in the titles is not an
# estimate: it is the bound of Meinshausen and Bühlmann on false selections, q²/((2π − 1)n) for q of n variables and a
# threshold π. It is not informative here, where q is a large part of n; it is useful for many variables
# (:doc:`How many variables? </how-many-variables>`).
for j, selected in enumerate(stable.selected, 1):
    names = [stable.feature_names[i] for i in selected.nonzero()[0]]
    print(f"component {j}:", ", ".join(names))
