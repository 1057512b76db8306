"""
Gene sets in components
=======================

A component is a list of genes; ``enrich`` tests which known gene sets are over-represented in it. The sets are the
three planted modules and twenty-seven random sets.
"""

import numpy as np

from gpower import GPower
from gpower.analysis.enrichment import enrich
from gpower.datasets import load_planted_expression
from gpower.plotting import plot_enrichment

table = load_planted_expression()
rng = np.random.default_rng(0)
sets = {module: set(genes) for module, genes in table.modules.items()}
for i in range(1, 28):
    sets[f"random {i}"] = set(rng.choice(table.feature_names, 10, replace=False))

# %%
model = GPower(3, cardinality=(8, 6, 5)).fit(table.X)
found = enrich(model, sets, genes=table.feature_names)

# %%
# The figure shows the twenty most enriched of the thirty sets; ``top=30`` draws all of them.
plot_enrichment(found)
