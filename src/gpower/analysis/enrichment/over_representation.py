"""Over-representation: test whether a component contains more genes of a set than a random selection of its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.utils import check_random_state

from gpower._utils.arrays import Array, Seed
from gpower._utils.frames import make_frame
from gpower.analysis.enrichment.gene_universe import Universe
from gpower.io.gmt import GeneSets
from gpower.validation.params import check_float, check_int

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Enrichment", "enrich", "random_index"]


@dataclass(frozen=True)
class Enrichment:
    """Over-representation of gene sets among the genes of each component.

    Attributes
    ----------
    universe : Universe
        The measured genes and the sets.
    selected : scipy.sparse matrix of shape (n_components, n_genes)
        1 where a component selects a gene.
    overlaps : ndarray of int, of shape (n_components, n_sets)
        Number of selected genes that are in the set.
    p_values : ndarray of shape (n_components, n_sets)
        Probability that as many random genes share at least as many genes with the set.
    adjusted_p_values : ndarray of shape (n_components, n_sets)
        p-values adjusted by the Benjamini–Hochberg procedure.
    alpha : float
        A set is enriched if its adjusted p-value is below this.
    scope : {"component", "all"}
        Whether p-values are adjusted within each component or over all components.

    Examples
    --------
    >>> from gpower.analysis.enrichment import enrich
    >>> sets = {"ABC": ["A", "B", "C"], "FGH": ["F", "G", "H"]}
    >>> result = enrich([[0.9, 0.3, 0.3, 0, 0, 0, 0, 0]], sets, genes=list("ABCDEFGH"))
    >>> result.significant, result.index
    (('ABC',), 0.5)
    """

    universe: Universe
    selected: sparse.csr_array = field(repr=False)
    overlaps: NDArray[np.int64] = field(repr=False)
    p_values: NDArray[np.float64] = field(repr=False)
    adjusted_p_values: NDArray[np.float64] = field(repr=False)
    alpha: float
    scope: str

    @property
    def n_selected(self) -> NDArray[np.int64]:
        """Return the number of distinct genes of each component, (n_components,)."""
        return np.diff(self.selected.indptr).astype(np.int64)

    @property
    def enriched(self) -> NDArray[np.bool_]:
        """Return which sets are enriched in which component, a bool array of shape (n_components, n_sets)."""
        return np.asarray(self.adjusted_p_values < self.alpha)

    @property
    def significant(self) -> tuple[str, ...]:
        """Return the names of the sets that are enriched in at least one component, in the order of the sets."""
        return tuple(self.universe.set_names[i] for i in np.flatnonzero(self.enriched.any(axis=0)))

    @property
    def index(self) -> float:
        """Return the pathway enrichment index: the share of the sets enriched in at least one component.

        It grows with the number of genes per component and with the number of components. Compare methods at equal
        numbers of both, and with `random_index`.
        """
        return float(np.mean(self.enriched.any(axis=0)))

    def get_shared_genes(self, component: int, gene_set: int) -> tuple[str, ...]:
        """Return the genes that a component and a set share; both are given by index from 0."""
        members, selected = self.universe.membership, self.selected
        of_set = members.indices[members.indptr[gene_set] : members.indptr[gene_set + 1]]
        of_component = selected.indices[selected.indptr[component] : selected.indptr[component + 1]]
        return tuple(self.universe.genes[i] for i in np.intersect1d(of_set, of_component))

    def columns(self) -> dict[str, Array]:
        """Return the columns of `to_frame` as arrays by name, without pandas."""
        order = np.argsort(self.p_values, axis=1, kind="stable")
        component, rank = np.nonzero(np.take_along_axis(self.overlaps, order, axis=1))
        gene_set = order[component, rank]
        n_selected, set_size = self.n_selected[component], self.universe.set_sizes[gene_set]
        genes = [
            " ".join(self.get_shared_genes(*pair)) for pair in zip(component.tolist(), gene_set.tolist(), strict=True)
        ]
        return {
            "component": component + 1,
            "gene_set": np.array(self.universe.set_names, dtype=object)[gene_set],
            "overlap": self.overlaps[component, gene_set],
            "set_size": set_size,
            "n_selected": n_selected,
            "expected": n_selected * set_size / len(self.universe.genes),
            "p_value": self.p_values[component, gene_set],
            "adjusted_p_value": self.adjusted_p_values[component, gene_set],
            "enriched": self.enriched[component, gene_set],
            "genes": np.array(genes, dtype=object),
        }

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary for each component and set that share a gene, in order of p-value within a component."""
        columns = self.columns()
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, row, strict=True))

    def to_frame(self) -> pd.DataFrame:
        """Return the `records` as a pandas DataFrame.

        Examples
        --------
        >>> from gpower.analysis.enrichment import enrich
        >>> result = enrich([[1, 1, 0, 0]], {"AB": ["A", "B"], "CD": ["C", "D"]}, genes=list("ABCD"))
        >>> print(result.to_frame()[["component", "gene_set", "overlap", "genes"]].to_string(index=False))
         component gene_set  overlap genes
                 1       AB        2   A B
        """
        return make_frame(self.columns())

    def plot(self, axes: Axes | None = None, *, top: int = 20) -> Axes:
        """Plot −log10 of the adjusted p-values as bars; see `gpower.plotting.plot_enrichment`.

        Parameters
        ----------
        axes : matplotlib Axes, optional
        top : int, default 20
            Largest number of sets to draw.

        Returns
        -------
        matplotlib Axes
        """
        from gpower.plotting import plot_enrichment  # an upward import, only for this method

        return plot_enrichment(self, axes, top=top)


def enrich(
    model_or_loadings: Any,
    gene_sets: GeneSets,
    *,
    genes: Sequence[str] | None = None,
    top: int | None = None,
    scope: str = "component",
    alpha: float = 0.05,
) -> Enrichment:
    """Test which gene sets are over-represented among the genes of each component.

    Let a component have k of N measured genes, a set K of them, and both share x. The p-value is the probability that k
    genes drawn at random include x or more genes of the set: the upper tail of the hypergeometric distribution, which
    is Fisher's exact test against the one-sided alternative. p-values are adjusted for the number of tests by the
    Benjamini–Hochberg procedure [BH95]_.

    Parameters
    ----------
    model_or_loadings : fitted model, array or DataFrame
        A model with `components_` (this package's, or scikit-learn's PCA); or its loadings: an array of shape
        (n_components, n_features), or a DataFrame like loadings.csv, genes × components.
    gene_sets : mapping of str to iterable of str
        Name → genes, as `gpower.datasets.read_gmt` returns.
    genes : sequence of str, optional
        The gene that each variable measures; by default the names in the model or the DataFrame.
    top : int, optional
        Use only the `top` variables of largest absolute loading of each component; needed for dense loadings. By
        default all variables with a non-zero loading are used.
    scope : {"component", "all"}, default "component"
        Adjust p-values over the sets within each component; or over all components × sets together, which bounds the
        share of false discoveries among all reported results.
    alpha : float, default 0.05
        A set is enriched if its adjusted p-value is below this.

    Returns
    -------
    Enrichment
        Overlaps and p-values of every set in every component, the enriched sets, and the pathway enrichment index.

    Notes
    -----
    The universe consists of all measured genes, in a set or not. Case is ignored when names are compared. Variables
    without a name are left out, and variables of the same gene count once; `result.universe.notes()` reports how many.
    A set without a measured gene has p = 1 and counts as a set. `result.index` is the pathway enrichment index of
    [TJASC07]_.

    References
    ----------
    .. [BH95] Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate. Journal of the Royal
       Statistical Society B 57, 289–300.
    .. [TJASC07] A. E. Teschendorff, M. Journée, P. A. Absil, R. Sepulchre, C. Caldas (2007). Elucidating the
       altered transcriptional programs in breast cancer using independent component analysis. PLoS
       Computational Biology 3, e161.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_planted_expression
    >>> from gpower.analysis.enrichment import enrich
    >>> table = load_planted_expression()
    >>> model = GPower(3, cardinality=(8, 6, 5)).fit(table.X)
    >>> result = enrich(model, table.gene_sets, genes=table.feature_names)
    >>> result.significant
    ('GROWTH', 'IMMUNE', 'STRESS')
    """
    if scope not in ("component", "all"):
        raise ValueError(f"scope is {scope!r}; choose 'component' or 'all'.")
    if not 0 < check_float(alpha, "alpha", 0.0) < 1:
        raise ValueError(f"alpha is {alpha}; give a number between 0 and 1, such as 0.05.")
    components, names = _extract_loadings_and_names(model_or_loadings, genes)
    universe = Universe.from_genes(names, gene_sets)
    return compute_overrepresentation(
        universe, universe.select(_select_component_variables(components, top)), scope, alpha
    )


def compute_overrepresentation(universe: Universe, selected: sparse.csr_array, scope: str, alpha: float) -> Enrichment:
    """Return the enrichment of selected genes, a sparse 0/1 matrix of shape (n_components, n_genes)."""
    overlaps = (selected @ universe.membership).toarray()
    p_values = _compute_upper_tail(universe, overlaps, np.diff(selected.indptr))
    axis = 1 if scope == "component" else None
    adjusted = stats.false_discovery_control(p_values, axis=axis, method="bh").reshape(p_values.shape)
    return Enrichment(universe, selected, overlaps, p_values, adjusted, alpha, scope)


def random_index(enrichment: Enrichment, *, n_draws: int = 200, random_state: Seed = None) -> NDArray[np.float64]:
    """Compute the pathway enrichment index of random genes: as many per component, the same sets and adjustment.

    Most draws have the index 0, but sets overlap, so that one draw can hit many of them: average many draws.

    Parameters
    ----------
    enrichment : Enrichment
        The enrichment to compare with.
    n_draws : int, default 200
        Number of draws; each draws the genes of every component anew.
    random_state : int, RandomState or None
        Source of the random numbers.

    Returns
    -------
    ndarray of shape (n_draws,)
        The index of each draw.

    Examples
    --------
    >>> from gpower.analysis.enrichment import enrich, random_index
    >>> sets = {"ABC": ["A", "B", "C"], "FGH": ["F", "G", "H"]}
    >>> result = enrich([[0.9, 0.3, 0.3, 0, 0, 0, 0, 0]], sets, genes=list("ABCDEFGH"))
    >>> bool(random_index(result, random_state=0).mean() < result.index)
    True
    """
    n_draws = check_int(n_draws, "n_draws", 1)
    rng = check_random_state(random_state)
    universe, sizes = enrichment.universe, enrichment.n_selected.tolist()
    draws = (universe.draw(sizes, rng) for _ in range(n_draws))
    results = (compute_overrepresentation(universe, genes, enrichment.scope, enrichment.alpha) for genes in draws)
    return np.array([result.index for result in results])


def _compute_upper_tail(
    universe: Universe, overlaps: NDArray[np.int64], n_selected: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute P(X ≥ overlap), (n_components, n_sets), once per distinct triple: random draws repeat them often."""
    triples = np.stack(np.broadcast_arrays(overlaps, universe.set_sizes, n_selected[:, None]), axis=-1)
    distinct, inverse = np.unique(triples.reshape(-1, 3), axis=0, return_inverse=True)
    overlap, set_size, n_drawn = distinct.T
    p_values = stats.hypergeom.sf(overlap - 1, len(universe.genes), set_size, n_drawn)
    return np.clip(p_values, 0.0, 1.0)[inverse.ravel()].reshape(overlaps.shape)


def _extract_loadings_and_names(source: Any, genes: Sequence[str] | None) -> tuple[NDArray[np.float64], list[str]]:
    """Return the loadings of a model, DataFrame or array, (n_components, n_features), and its genes."""
    own_names = None
    if hasattr(source, "components_"):
        components = np.asarray(source.components_, np.float64)
        own_names = getattr(source, "feature_names_in_", None)
    elif hasattr(source, "columns") and hasattr(source, "index"):
        components = np.asarray(source, np.float64).T
        own_names = source.index
    elif hasattr(source, "get_params"):
        raise ValueError(f"The {type(source).__name__} is not fitted; call fit first.")
    else:
        components = np.atleast_2d(np.asarray(source, np.float64))
    names = own_names if genes is None else genes
    if names is None:
        raise ValueError("The loadings come without gene names; pass genes=, one name for each variable.")
    if components.ndim != 2 or components.shape[1] != len(names):
        is_transposed = components.ndim == 2 and components.shape[0] == len(names)
        advice = "transpose them to components × genes" if is_transposed else "give one name for each variable"
        raise ValueError(f"genes has {len(names)} names, but the loadings have the shape {components.shape}; {advice}.")
    if not np.isfinite(components).all():
        raise ValueError("The loadings contain NaN or infinity; fit the model again without them.")
    return components, list(names)


def _select_component_variables(components: NDArray[np.float64], top: int | None) -> list[NDArray[np.intp]]:
    """Return the variables that each component selects: its non-zero loadings, or the `top` largest of them."""
    n = components.shape[1]
    if top is None and n > 1 and components.all():
        raise ValueError(
            f"All {n} loadings of every component are non-zero, so no gene is selected; give the number of largest "
            "loadings to use, as in top=100."
        )
    if top is not None and check_int(top, "top", 0) not in range(1, n + 1):
        raise ValueError(f"top is {top}; give a number of genes between 1 and {n}.")
    orders = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :top]
    return [order[row[order] != 0] for order, row in zip(orders, components, strict=True)]
