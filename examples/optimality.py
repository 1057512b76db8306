"""
Certificates of optimality
==========================

It is not feasible to try all sets of variables, but it is possible to prove an upper bound on the variance that any of
them explains. Random data, which have no structure, are the hardest case. :doc:`Certificates </certificates>` contains
the proofs.
"""

import matplotlib.pyplot as plt

from gpower import GPower, best_subset, certify
from gpower.datasets import gaussian

X = gaussian(40, 60, random_state=0)
numbers = [2, 4, 6, 8, 12, 16, 24, 32]

# %%
# ``upper_bound`` is valid for every set of that many variables; ``value`` is the variance of the component found. Each
# certificate may take two seconds.
bounds = [certify(GPower(1, cardinality=k).fit(X), X, max_time=2)[0] for k in numbers]
print(*bounds[:3], sep="\n")

# %%
values = [bound.value for bound in bounds]
possible = [bound.upper_bound for bound in bounds]
plt.fill_between(numbers, values, possible, alpha=0.3, label="not decided")
plt.plot(numbers, values, "o-", label="explained by our variables")
plt.xlabel("number of variables")
plt.ylabel("sum of squares")
plt.legend(frameon=False)
plt.show()

# %%
# Exact search finds the best set and proves it.
_, proved = best_subset(X, cardinality=4)
print(proved)
print(f"ours: {values[1]:.4f}")
