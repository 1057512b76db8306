"""
Choosing the number of variables
================================

The path shows how much variance each additional variable explains. Cross-validation chooses a number.
The data are the chemistry of 178 wines.
"""

from sklearn.datasets import load_wine

from gpower import GPowerCV, sparsity_path
from gpower.plotting import plot_cv

X = load_wine(as_frame=True).data

# %%
# Compute a solution for every number of variables, from one to thirteen. Each starts from its neighbours.
path = sparsity_path(X, scale=True)
path.plot()

# %%
# The score is the variance of held-out wines that a component adds to the other, times the share of variables that it
# does not use. The circle is the largest score. A broad line marks the numbers within one standard error of it, which
# would do as well (:doc:`How many variables? </how-many-variables>`).
model = GPowerCV(2, scale=True, cv=10).fit(X)
plot_cv(model)

# %%
# The variables of the chosen components.
for j, variables in enumerate(model.best_estimator_.loadings(), 1):
    print(f"component {j}:", ", ".join(variables))
