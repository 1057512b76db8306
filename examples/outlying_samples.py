"""
Outlying samples
================

A few outlying samples can dominate a component, because the variance is a sum of squares. ``variance="l1"`` maximises
the sum of absolute scores instead, which is less sensitive to outliers.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpower import GPower

rng = np.random.default_rng(1)
clean = rng.standard_normal((200, 60))
clean[:, :6] += 2 * rng.standard_normal((200, 1))  # the six relevant variables
directions = rng.standard_normal((2, 60))

# %%
# Two of the 200 samples are moved away from the others, each in its own direction.
distances = np.arange(0, 13, 2)
found = {"l2": [], "l1": []}
for distance in distances:
    X = clean.copy()
    X[:2] += distance * directions
    for variance, counts in found.items():
        model = GPower(1, cardinality=6, variance=variance, center=False).fit(X)
        counts.append(np.count_nonzero(model.components_[0, :6]))

# %%
for variance, counts in found.items():
    plt.plot(distances, counts, "o-", label=f'variance="{variance}"')
plt.xlabel("distance of two outlying samples")
plt.ylabel("of the six variables found")
plt.ylim(-0.3, 6.3)
plt.yticks(range(7))
plt.legend(frameon=False)
plt.show()
