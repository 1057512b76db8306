"""
Outlying samples
================

A few samples far away pull a component towards themselves, since variance squares. ``variance="l1"`` maximises the
sum of absolute scores instead, which they sway less.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpower import GPower

rng = np.random.default_rng(1)
clean = rng.standard_normal((200, 60))
clean[:, :6] += 2 * rng.standard_normal((200, 1))  # the six variables to be found
directions = rng.standard_normal((2, 60))

# %%
# Two of the 200 samples are moved further and further out, each in a direction of its own.
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
