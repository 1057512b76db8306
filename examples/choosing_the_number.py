"""
Choosing the number of variables
================================

The path shows how much variance each additional variable explains. Cross-validation shows from which number on the
model fits noise. The data are the chemistry of 178 wines.
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
# The score is the share of the variance of held-out wines that is explained. ``rule="one-se"`` takes the fewest
# variables within one standard error of the maximum, which is appropriate for interpretation; ``rule="best"`` is
# appropriate for prediction. The path above has one component. Here each curve is for two components together,
# because an ordinary second component is used while the first is chosen: 55 % instead of 36 % (:doc:`How many
# variables? </how-many-variables>`).
model = GPowerCV(2, scale=True, cv=10, criterion="prediction", rule="one-se").fit(X)
plot_cv(model)

# %%
# The variables of the chosen components.
for j, variables in enumerate(model.best_estimator_.loadings(), 1):
    print(f"component {j}:", ", ".join(variables))
