"""
Positive loadings: parts of digits
==================================

With non-negative loadings a component can only add, never take away, and few of them make it a part. Sixteen parts of
handwritten digits, 12 pixels of 64 each.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gpower import GPower

X = load_digits().data
# Three pixels are never inked: notes_ says so.
model = GPower(16, cardinality=12, positive=True).fit(X)
print(f"{model.explained_variance_ratio_.sum():.0%} of the variance")
print("pixels used:", model.cardinality_.tolist())

# %%
figure, panels = plt.subplots(2, 8, figsize=(8, 2.2))
for panel, component in zip(panels.flat, model.components_, strict=True):
    panel.imshow(component.reshape(8, 8), cmap="Greys")
    panel.set(xticks=[], yticks=[])
plt.show()
