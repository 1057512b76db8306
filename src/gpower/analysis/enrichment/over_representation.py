"""Over-representation: does a component hold more genes of a set than a random choice of as many genes would?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from gpower._utils.arrays import Array
from gpower._utils.frames import make_frame
from gpower.analysis.enrichment.gene_universe import Universe
from gpower.io.gmt import GeneSets
from gpower.validation.params import check_float, check_int

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Enrichment", "enrich"]


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
        Selected genes that are in the set.
    p_values : ndarray of shape (n_components, n_sets)
        Probability that a random choice of as many genes shares at least as many with the set.
    adjusted_p_values : ndarray of shape (n_components, n_sets)
        The same after the correction of Benjamini and Hochberg.
    alpha : float
        An adjusted p-value below it makes a set enriched.
    scope : {"component", "all"}
        What the correction runs over.

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
        """Distinct genes of each component."""
        return np.diff(self.selected.indptr).astype(np.int64)

    @property
    def enriched(self) -> NDArray[np.bool_]:
        """Which sets are enriched in which component, of shape (n_components, n_sets)."""
        return np.asarray(self.adjusted_p_values < self.alpha)

    @property
    def significant(self) -> tuple[str, ...]:
        """The sets that are enriched in at least one component, in their own order."""
        return tuple(self.universe.set_names[at] for at in np.flatnonzero(self.enriched.any(axis=0)))

    @property
    def index(self) -> float:
        """The pathway enrichment index: the share of the sets enriched in at least one component.

        It grows with the number of genes a component may use and with the number of components: compare methods at
        equal numbers of both, and with `random_index`.
        """
        return float(np.mean(self.enriched.any(axis=0)))

    def get_shared_genes(self, component: int, gene_set: int) -> tuple[str, ...]:
        """The genes that a component and a set share, both counted from 0."""
        members, selected = self.universe.membership, self.selected
        of_set = members.indices[members.indptr[gene_set] : members.indptr[gene_set + 1]]
        of_component = selected.indices[selected.indptr[component] : selected.indptr[component + 1]]
        return tuple(self.universe.genes[at] for at in np.intersect1d(of_set, of_component))

    def columns(self) -> dict[str, Array]:
        """The columns of `to_frame`, without pandas."""
        order = np.argsort(self.p_values, axis=1, kind="stable")
        component, place = np.nonzero(np.take_along_axis(self.overlaps, order, axis=1))
        gene_set = order[component, place]
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
        """One dictionary for each component and set that share a gene, smallest p-value of a component first."""
        columns = self.columns()
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, row, strict=True))

    def to_frame(self) -> pd.DataFrame:
        """The `records` as a pandas DataFrame.

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
        """Bars of −log10 of the adjusted p-values; see `gpower.plotting.plot_enrichment`.

        Parameters
        ----------
        axes : matplotlib Axes, optional
        top : int, default 20
            The most sets to draw.

        Returns
        -------
        matplotlib Axes
        """
        from gpower.plotting import plot_enrichment  # read when a picture is wanted

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
    """Which gene sets are over-represented among the genes of each component.

    For a component of k genes out of N measured ones, and a set with K measured genes of which the component
    holds x, the p-value is the probability that k genes drawn at random hold x or more of the set: the upper
    tail of the hypergeometric distribution, which is Fisher's exact test against the one-sided alternative.
    p-values are corrected for the number of tests after Benjamini and Hochberg [BH95]_.

    Parameters
    ----------
    model_or_loadings : fitted model, array or DataFrame
        A model with `components_` (this package's, or scikit-learn's PCA); or its loadings: an array of shape
        (n_components, n_features), or a DataFrame like loadings.csv, genes × components.
    gene_sets : mapping of str to iterable of str
        Name → genes, as `gpower.datasets.read_gmt` returns.
    genes : sequence of str, optional
        The gene that each variable measures; by default the names that the model or the frame holds.
    top : int, optional
        Only the `top` variables of largest absolute loading of each component, which dense loadings need. By
        default all variables with a non-zero loading.
    scope : {"component", "all"}, default "component"
        Correct over the sets within each component, as for one component at a time; or over all components ×
        sets together, which bounds the share of false discoveries among everything that is reported.
    alpha : float, default 0.05
        A set is enriched when its corrected p-value is below this.

    Returns
    -------
    Enrichment
        Overlap and p-values of every set in every component, the sets that are enriched, and the index.

    Notes
    -----
    The universe is the measured genes, in a set or not. Names are compared without regard to case; variables
    without a name are left out; variables of the same gene count once. `result.universe.notes()` says how many.
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
    """The enrichment of given selections, a sparse matrix of shape (n_components, n_genes)."""
    overlaps = (selected @ universe.membership).toarray()
    p_values = _compute_upper_tail(universe, overlaps, np.diff(selected.indptr))
    axis = 1 if scope == "component" else None
    adjusted = stats.false_discovery_control(p_values, axis=axis, method="bh").reshape(p_values.shape)
    return Enrichment(universe, selected, overlaps, p_values, adjusted, alpha, scope)


def _compute_upper_tail(
    universe: Universe, overlaps: NDArray[np.int64], n_selected: NDArray[np.int64]
) -> NDArray[np.float64]:
    """P(X ≥ overlap), each distinct question asked once: random draws repeat them thousands of times."""
    questions = np.stack(np.broadcast_arrays(overlaps, universe.set_sizes, n_selected[:, None]), axis=-1)
    asked, answers = np.unique(questions.reshape(-1, 3), axis=0, return_inverse=True)
    overlap, set_size, n_drawn = asked.T
    p_values = stats.hypergeom.sf(overlap - 1, len(universe.genes), set_size, n_drawn)
    return np.clip(p_values, 0.0, 1.0)[answers.ravel()].reshape(overlaps.shape)


def _extract_loadings_and_names(source: Any, genes: Sequence[str] | None) -> tuple[NDArray[np.float64], list[str]]:
    """Loadings of shape (n_components, n_features) and the gene of each variable, from whatever holds them."""
    own = None
    if hasattr(source, "components_"):
        components, own = np.asarray(source.components_, np.float64), getattr(source, "feature_names_in_", None)
    elif hasattr(source, "columns") and hasattr(source, "index"):
        components, own = np.asarray(source, np.float64).T, source.index
    elif hasattr(source, "get_params"):
        raise ValueError(f"The {type(source).__name__} is not fitted; call fit first.")
    else:
        components = np.atleast_2d(np.asarray(source, np.float64))
    names = own if genes is None else genes
    if names is None:
        raise ValueError("The loadings come without gene names; pass genes=, one name for each variable.")
    if components.ndim != 2 or components.shape[1] != len(names):
        turned = components.ndim == 2 and components.shape[0] == len(names)
        advice = "transpose them to components × genes" if turned else "give one name for each variable"
        raise ValueError(f"genes has {len(names)} names, but the loadings have the shape {components.shape}; {advice}.")
    if not np.isfinite(components).all():
        raise ValueError("The loadings contain NaN or infinity; fit the model again without them.")
    return components, list(names)


def _select_component_variables(components: NDArray[np.float64], top: int | None) -> list[NDArray[np.intp]]:
    """The variables that each component selects: its non-zero loadings, or the `top` largest of them."""
    n = components.shape[1]
    if top is None and n > 1 and components.all():
        raise ValueError(
            f"All {n} loadings of every component are non-zero, so no gene is selected; say how many of the largest to "
            "use, as in top=100."
        )
    if top is not None and check_int(top, "top", 0) not in range(1, n + 1):
        raise ValueError(f"top is {top}; give a number of genes between 1 and {n}.")
    orders = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :top]
    return [order[row[order] != 0] for order, row in zip(orders, components, strict=True)]
