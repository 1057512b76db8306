"""
Non-negative loadings: parts of digits
======================================

With non-negative loadings a component is a sum of variables, and with few loadings it is a part of an image. The model
has sixteen parts of handwritten digits, each with 12 of 64 pixels.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gpower import GPower

X = load_digits().data
# Three pixels are constant, which is recorded in notes_.
model = GPower(16, cardinality=12, positive=True).fit(X)
print(f"{model.explained_variance_ratio_.sum():.0%} of the variance")
print("pixels used:", model.cardinality_.tolist())

# %%
figure, panels = plt.subplots(2, 8, figsize=(8, 2.2))
for panel, component in zip(panels.flat, model.components_, strict=True):
    panel.imshow(component.reshape(8, 8), cmap="Greys")
    panel.set(xticks=[], yticks=[])
plt.show()
