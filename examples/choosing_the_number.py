"""
Choosing the number of variables
================================

How many variables should a component have? The path shows what each further one buys; cross-validation says from which
number on it is noise. The data are the chemistry of 178 wines.
"""

from sklearn.datasets import load_wine

from gpower import GPowerCV, sparsity_path
from gpower.plotting import plot_cv

X = load_wine(as_frame=True).data

# %%
# Every number of variables, from one to thirteen, each solution begun at its neighbours.
path = sparsity_path(X, scale=True)
path.plot()

# %%
# How much of held-out wines is explained. ``rule="one-se"`` takes the fewest variables within one standard error of the
# top, which is the choice for reading; ``rule="best"`` is the choice for prediction. The path above has one component;
# here each curve is of two together, since an ordinary second component stands in while the first is chosen: hence 55 %
# and not 36 % (:doc:`How many variables? </how-many-variables>`).
model = GPowerCV(2, scale=True, cv=10, criterion="prediction", rule="one-se").fit(X)
plot_cv(model)

# %%
# The chosen components, by name.
for j, variables in enumerate(model.best_estimator_.loadings(), 1):
    print(f"component {j}:", ", ".join(variables))
