"""
Beside other methods
====================

``compare`` fits the methods of the literature to the same data at the same number of variables, and measures all with
one ruler. Pit props again, with the numbers of variables that the literature uses.
"""

from gpower import compare
from gpower.datasets import load_pitprops
from gpower.plotting import plot_comparison

C = load_pitprops().correlation
found = compare(C, n_components=6, cardinality=(7, 4, 4, 1, 1, 1), covariance="precomputed")
plot_comparison(found)

# %%
found.to_frame()[["variance", "adjusted_variance", "share_of_pca"]].round(3)
