"""
Which gene sets do the components hold?
=======================================

A component is a list of genes; ``enrich`` asks which known sets are over-represented in it. The sets here are the three
planted modules among twenty-seven drawn at random.
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
# The picture has the twenty most enriched of the thirty sets; ``top=30`` would draw all of them.
plot_enrichment(found)
