"""The bundled expression table is what its generator makes."""

import numpy as np
from tests.planted_data import make_planted_components

from gpower.datasets import load_planted_expression

MODULES = {"GROWTH": (8, 3.0), "IMMUNE": (6, 2.2), "STRESS": (5, 1.6)}  # name: (genes, sd of the factor)


def planted_expression():
    """Return 60 samples × 150 genes in two decimals, and names of genes that contain the module, such as GROWTH3."""
    rng = np.random.RandomState(0)
    sizes, strengths = zip(*MODULES.values(), strict=True)
    # A factor of sd s in every gene is s·√k along the unit loading vector of k genes.
    sds = [strength * np.sqrt(size) for size, strength in zip(sizes, strengths, strict=True)]
    planted = make_planted_components(60, 150, sizes, sds, random_state=rng)
    names = [f"GENE{j + 1}" for j in range(150)]
    for module, support in zip(MODULES, planted.supports, strict=True):
        for rank, j in enumerate(support, start=1):
            names[j] = f"{module}{rank}"
    return np.round(planted.X + rng.uniform(5, 10, 150), 2), tuple(names)


def test_bundled_table_is_what_the_generator_makes():
    bundled = load_planted_expression()
    X, genes = planted_expression()
    np.testing.assert_array_equal(bundled.X, X)
    assert bundled.feature_names == genes
