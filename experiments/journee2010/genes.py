"""Gene expression: the cohorts, and the runs of all methods at every sparsity for two tables and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from experiments.journee2010 import published
from experiments.journee2010.methods import SEVERAL, Method
from experiments.journee2010.study import Row, Study
from experiments.journee2010.sweeps import sweep
from gpower.analysis.enrichment import enrich
from gpower.datasets import expression_cohort, read_gmt
from gpower.operators import as_operator
from gpower.operators.leading_pca import compute_leading_components

M = 10
#: Levels of a sweep, and cardinalities of SPCA and of the largest loadings of PCA.
LEVELS = (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.36, 0.43, 0.5, 0.6, 0.7, 0.8)
CARDINALITIES = (5, 10, 20, 50, 100, 200, 350, 500, 750, 1000)
#: Gene sets that are active in a synthetic cohort: twice as many as there are components to find them.
N_ACTIVE = 20
METHODS: dict[str, Method] = {method.name: method for method in SEVERAL}


@dataclass(frozen=True, eq=False)
class Cohort:
    """Centred expression, (samples, genes), with the genes' names and two collections of gene sets."""

    name: str
    A: np.ndarray
    genes: tuple[str, ...]
    pathways: Mapping[str, tuple[str, ...]]
    motifs: Mapping[str, tuple[str, ...]]

    def indices(self, Z: np.ndarray, top: int | None = None) -> Row:
        """Return the pathway enrichment index of loadings for both collections."""
        collections = {"pathways": self.pathways, "motifs": self.motifs}
        if top is None and Z.all():
            return dict.fromkeys(collections, 0.0)  # all genes are selected: nothing is over-represented
        return {
            name: enrich(Z.T, sets, genes=self.genes, top=top).index if sets else 0.0
            for name, sets in collections.items()
        }


def names(study: Study) -> list[str]:
    """Return the names of the cohorts of this run."""
    if study.data is None:
        return [f"like {name}" for name in published.COHORTS]
    found = sorted(path.stem for path in study.data.glob("*.npz") if _is_expression(path))
    if not found:
        raise SystemExit(f"{study.data} holds no cohort: a .npz file with the arrays X and genes.")
    return found


def _is_expression(path: Path) -> bool:
    with np.load(path) as file:
        return {"X", "genes"} <= set(file.files)


@lru_cache(maxsize=1)
def cohort(study: Study, name: str) -> Cohort:
    """Return a cohort by name; the last one is cached."""
    return _synthetic(study.full, name) if study.data is None else _real(study.data, name)


def _real(folder: Path, name: str) -> Cohort:
    """Read a file of the folder with all gene sets; sets of files whose name begins with c3 (MSigDB) are motifs."""
    collections = {path.name: read_gmt(path) for path in sorted(folder.glob("*.gmt"))}
    pathways = {k: v for file, sets in collections.items() if not file.startswith("c3") for k, v in sets.items()}
    motifs = {k: v for file, sets in collections.items() if file.startswith("c3") for k, v in sets.items()}
    with np.load(folder / f"{name}.npz") as file:
        X, genes = file["X"].astype(float), tuple(map(str, file["genes"]))
    return Cohort(name, X - X.mean(axis=0), genes, pathways, motifs)


def _synthetic(full: bool, name: str) -> Cohort:
    """Return a cohort with planted gene sets: the paper's size, or a third of the samples and a fifth of the genes."""
    place = list(published.COHORTS).index(name.removeprefix("like "))
    p, n = list(published.COHORTS.values())[place]
    sets = (published.N_PATHWAYS, published.N_MOTIFS)
    if not full:
        p, n, sets = p // 3, n // 5, (sets[0] // 5, sets[1] // 5)
    made = expression_cohort(p, n, n_sets=sum(sets), n_active=N_ACTIVE, random_state=place)
    # active sets come first: deal all of them to the two collections at random, in the paper's proportion
    order = np.random.RandomState(place).permutation(sum(sets))
    chosen = list(made.gene_sets.items())
    pathways, motifs = ({chosen[i][0]: chosen[i][1] for i in part} for part in np.split(order, [sets[0]]))
    return Cohort(name, made.X - made.X.mean(axis=0), made.feature_names, pathways, motifs)


def runs(study: Study) -> list[Row]:
    """Run every method on every cohort, and PCA with its largest loadings."""
    keys = [{"cohort": name, "method": method} for name in names(study) for method in (published.PCA, *METHODS)]
    rows = study.instances("genes", keys, lambda cohort, method: _run(study, cohort, method))
    return [row | {"k": row["cardinality"] / M} for row in rows]


def _run(study: Study, name: str, method: str) -> list[Row]:
    found = cohort(study, name)
    few = [k for k in CARDINALITIES if k < found.A.shape[1]]
    if method != published.PCA:
        rows = sweep(found.A, [METHODS[method]], few, M, LEVELS, found.indices)
        return [{key: value for key, value in row.items() if key != "method"} for row in rows]
    operator, _ = as_operator(found.A, center=False, reduce_tall=False)
    Z, _ = compute_leading_components(operator, M)
    return [{"level": k, "cardinality": k * M} | found.indices(Z, k) for k in few]
