"""
Could other variables explain more?
===================================

Nobody can try all sets of variables, but one can prove that none is better by more than so much. Random data are the
hardest case: nothing stands out. :doc:`Certificates </certificates>` has the proofs.
"""

import matplotlib.pyplot as plt

from gpower import GPower, best_subset, certify
from gpower.datasets import gaussian

X = gaussian(40, 60, random_state=0)
numbers = [2, 4, 6, 8, 12, 16, 24, 32]

# %%
# ``upper_bound`` holds for every set of that many variables; ``value`` is what ours explain. Two seconds for each.
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
# Exact search gives the best set, and the proof.
_, proved = best_subset(X, cardinality=4)
print(proved)
print(f"ours: {values[1]:.4f}")
