"""Gene expression with the same number of genes in every component, which no table of the paper has.

A penalty may give each component another number of genes, so two methods of the same mean cardinality may distribute
them differently. Here every component has k genes, and only the methods and their deflation differ: the paper's rule
removes the loadings of a component, Schur's rule its scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.rulers import quiet

from experiments.journee2010 import published, report
from experiments.journee2010.genes import M, cohort, names
from experiments.journee2010.methods import fill, timed
from experiments.journee2010.study import Row, Study
from gpower import GPower, Solver
from gpower.baselines import SPCA, RankOneSVD
from gpower.estimators.base import SparsePCAEstimator
from gpower.operators import as_operator
from gpower.operators.explained_variance import Scores
from gpower.operators.leading_pca import compute_leading_components

CARDINALITIES = (50, 200)
#: One start, the paper's, and no local search: the defaults of GPower do more, and better.
START: dict[str, Any] = {
    "solver": Solver(init="largest_norm", local_search=False),
    "n_init": 1,
    "deflation": "projection",
}
ESTIMATORS: dict[str, SparsePCAEstimator] = {
    published.GPOWER_L1: GPower(M, penalty="l1", **START),
    published.GPOWER_L0: GPower(M, **START),
    published.BLOCK_L1: GPower(M, penalty="l1", method="block", **START),
    published.BLOCK_L0: GPower(M, method="block", **START),
    published.SPCA: SPCA(M, ridge=np.inf),
    published.RSVD_L1: RankOneSVD(M),
    published.RSVD_L0: RankOneSVD(M, penalty="l0"),
    f"{published.GPOWER_L0}, Schur deflation": GPower(M, **START | {"deflation": "schur"}),
    f"{published.RSVD_L0}, Schur deflation": RankOneSVD(M, penalty="l0", deflation="schur"),
}


def run(study: Study) -> None:
    """Print adjusted variance before and after post-processing, and both indices."""
    keys = [{"cohort": name, "k": k} for name in names(study) for k in CARDINALITIES]
    rows = study.instances("genes_equal", keys, lambda cohort, k: _compared(study, cohort, k))
    note = (
        "correlation: mean |correlation| between components; genes: distinct ones in all of them. "
        "Times include the search for the penalty where one is needed."
    )
    title = "Ten components of k genes each: adjusted variance over that of PCA, overlap, enrichment index, seconds"
    report.table(study, "table_equal", title, rows, note)


def _compared(study: Study, name: str, k: int) -> list[Row]:
    found = cohort(study, name)
    operator, _ = as_operator(found.A, center=False, reduce_tall=False)
    first, variances = compute_leading_components(operator, M)
    rows = [{"method": published.PCA, "variance": 1.0, "postprocessed": 1.0} | found.indices(first, k)]
    for method, estimator in ESTIMATORS.items():
        model = type(estimator)(**estimator.get_params(deep=False) | {"cardinality": k, "center": False})
        with quiet():
            seconds = timed(lambda model=model: model.fit(found.A))[1]
        Z = model.components_.T
        shares = {
            kind: float(Scores.from_loadings(operator, loadings).compute_adjusted_variances().sum() / variances.sum())
            for kind, loadings in (("variance", Z), ("postprocessed", fill(operator, Z)))
        }
        overlap = {"correlation": mean_correlation(found.A @ Z), "genes": int(np.count_nonzero(Z.any(axis=1)))}
        rows.append({"method": method} | shares | overlap | found.indices(Z) | {"seconds": seconds})
    return rows


def mean_correlation(scores: np.ndarray) -> float:
    """Return the mean absolute correlation between different components, from their scores (samples, m)."""
    correlations = np.abs(np.corrcoef(scores.T))
    return float(np.mean(correlations[np.triu_indices_from(correlations, 1)]))
