"""
Comparison with other methods
=============================

``compare`` fits published methods to the same data at the same number of variables and evaluates them with the same
measures. The data are the pit props, with the numbers of variables that the literature uses.
"""

from gpower import compare
from gpower.datasets import load_pitprops
from gpower.plotting import plot_comparison

C = load_pitprops().correlation
found = compare(C, n_components=6, cardinality=(7, 4, 4, 1, 1, 1), covariance="precomputed")
plot_comparison(found)

# %%
found.to_frame()[["variance", "adjusted_variance", "share_of_pca"]].round(3)
