"""The measured genes and their membership in gene sets: `Universe`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from gpower._utils.arrays import Seed
from gpower._utils.text import MISSING_GENE_WORDS
from gpower.io.gmt import GeneSets

__all__ = ["Universe"]

_DUPLICATE_SUFFIX_PATTERN = re.compile(r"(.+)\.\d+")  # `read_table` renames a second TP53 to TP53.1
_MAX_LISTED_GENES = 3


@dataclass(frozen=True)
class Universe:
    """The measured genes and their membership in gene sets.

    Case is ignored when names are compared. Several variables of one gene (its probes, which `read_table` calls TP53,
    TP53.1, …) count as one gene of the universe; variables without a name are left out.

    Attributes
    ----------
    genes : tuple of str
        The distinct genes, as first written.
    set_names : tuple of str
        The gene sets.
    membership : scipy.sparse matrix of shape (n_genes, n_sets)
        1 where a gene is in a set; stored by columns.
    gene_indices : ndarray of int, of shape (n_variables,)
        Index into `genes` of the gene that each variable measures; −1 if it has no name.
    n_unnamed, n_repeated : int
        Number of variables without a name, and of variables beyond the first of their gene.
    case_mismatches : tuple of str
        Genes found in the sets only because case is ignored.
    n_set_genes, n_unmeasured : int
        Number of distinct genes of all sets, and of those among them that were not measured.

    Examples
    --------
    >>> from gpower.analysis.enrichment import Universe
    >>> universe = Universe.from_genes(["TP53", "tp53.1", "Mdm2", ""], {"P53": ["TP53", "MDM2", "CDKN1A"]})
    >>> universe.genes, universe.set_sizes.tolist()
    (('TP53', 'Mdm2'), [2])
    >>> for note in universe.notes():
    ...     print(note)
    1 of the 4 variables has no gene name and is left out.
    1 variable measures a gene that an earlier one measures; they count as one gene.
    1 gene is written in another case in the gene sets (Mdm2); case is ignored.
    1 of the 3 genes of the sets was not measured and is left out.
    """

    genes: tuple[str, ...]
    set_names: tuple[str, ...]
    membership: sparse.csc_array = field(repr=False)
    gene_indices: NDArray[np.intp] = field(repr=False)
    n_unnamed: int
    n_repeated: int
    case_mismatches: tuple[str, ...] = field(repr=False)
    n_set_genes: int
    n_unmeasured: int

    @classmethod
    def from_genes(cls, genes: Sequence[object], gene_sets: GeneSets) -> Universe:
        """Create the universe of variables with the names `genes`, one per variable, and of `gene_sets`.

        Raises
        ------
        ValueError
            There is no set, or no set contains a measured gene.
        """
        if not gene_sets:
            raise ValueError("There are no gene sets; read some with gpower.datasets.read_gmt.")
        names = [str(gene).strip() for gene in genes]
        keys = _build_match_keys(names)
        index_of = {key: i for i, key in enumerate(dict.fromkeys(filter(None, keys)))}
        first_spelling = {name.casefold(): name for name in reversed(names)}
        distinct = tuple(first_spelling[key] for key in index_of)
        members = [_read_set_members(name, set_genes) for name, set_genes in gene_sets.items()]
        rows = [np.array([index_of[key] for key in of_set if key in index_of], np.intp) for of_set in members]
        membership = _build_indicator_matrix(rows, len(index_of)).T
        set_spelling = {key: gene for of_set in members for key, gene in of_set.items()}
        if membership.nnz == 0:
            measured = ", ".join(distinct[:_MAX_LISTED_GENES])
            in_sets = ", ".join(list(set_spelling.values())[:_MAX_LISTED_GENES])
            raise ValueError(
                f"None of the {len(index_of)} measured genes ({measured}) is in a gene set ({in_sets}). "
                "Give the genes the kind of names that the sets use, such as symbols."
            )
        return cls(
            genes=distinct,
            set_names=tuple(gene_sets),
            membership=membership,
            gene_indices=np.array([index_of.get(key, -1) for key in keys], dtype=np.intp),
            n_unnamed=sum(not key for key in keys),
            n_repeated=sum(bool(key) for key in keys) - len(index_of),
            case_mismatches=tuple(
                gene for key, gene in zip(index_of, distinct, strict=True) if set_spelling.get(key, gene) != gene
            ),
            n_set_genes=len(set_spelling),
            n_unmeasured=len(set_spelling.keys() - index_of.keys()),
        )

    @property
    def set_sizes(self) -> NDArray[np.int64]:
        """Return the number of measured genes of each set, (n_sets,)."""
        return np.asarray(self.membership.sum(axis=0), dtype=np.int64).ravel()

    def select(self, variables: Sequence[NDArray[np.intp]]) -> sparse.csr_array:
        """Return which genes each list of variables measures: a sparse 0/1 matrix of shape (n_lists, n_genes)."""
        rows = [np.unique(self.gene_indices[indices]) for indices in variables]
        return _build_indicator_matrix([row[row >= 0] for row in rows], len(self.genes))

    def draw(self, sizes: Sequence[int], random_state: Seed = None) -> sparse.csr_array:
        """Draw `sizes[i]` distinct genes at random for row i of a sparse 0/1 matrix, (len(sizes), n_genes)."""
        rng = check_random_state(random_state)
        n = len(self.genes)
        return _build_indicator_matrix([rng.choice(n, size, replace=False) for size in sizes], n)

    def notes(self) -> Iterator[str]:
        """Yield sentences about names that are missing, repeated, in another case or not measured."""
        if self.n_unnamed:
            what = "has no gene name and is" if self.n_unnamed == 1 else "have no gene name and are"
            yield f"{self.n_unnamed} of the {len(self.gene_indices)} variables {what} left out."
        if self.n_repeated:
            what = "variable measures" if self.n_repeated == 1 else "variables measure"
            yield f"{self.n_repeated} {what} a gene that an earlier one measures; they count as one gene."
        if n_other := len(self.case_mismatches):
            what = "gene is" if n_other == 1 else "genes are"
            shown = ", ".join(self.case_mismatches[:_MAX_LISTED_GENES]) + (", …" if n_other > _MAX_LISTED_GENES else "")
            yield f"{n_other} {what} written in another case in the gene sets ({shown}); case is ignored."
        if self.n_unmeasured:
            what = "was not measured and is" if self.n_unmeasured == 1 else "were not measured and are"
            yield f"{self.n_unmeasured} of the {self.n_set_genes} genes of the sets {what} left out."


def _build_match_keys(names: Sequence[str]) -> list[str]:
    """Return the keys by which names are compared: case folded, TP53.1 as TP53 if there is a TP53, "" for no name."""
    folded = [name.casefold() for name in names]
    distinct = set(folded)

    def get_key(name: str) -> str:
        if name in MISSING_GENE_WORDS:
            return ""
        numbered = _DUPLICATE_SUFFIX_PATTERN.fullmatch(name)
        return get_key(numbered[1]) if numbered and numbered[1] in distinct else name

    return [get_key(name) for name in folded]


def _read_set_members(set_name: str, genes: Iterable[str]) -> dict[str, str]:
    """Return the genes of a set, case-folded key → gene as written; raise if the set is one string."""
    if isinstance(genes, str):
        raise ValueError(f"The gene set {set_name!r} is one string, {genes[:20]!r}; give a list of gene names.")
    return {str(gene).strip().casefold(): str(gene).strip() for gene in genes}


def _build_indicator_matrix(rows: list[NDArray[np.intp]], n: int) -> sparse.csr_array:
    """Return a sparse matrix with n columns and 1 at the columns that each row lists."""
    indptr = np.concatenate([[0], np.cumsum([row.size for row in rows])])
    columns = np.concatenate([np.empty(0, np.intp), *rows])
    return sparse.csr_array((np.ones(columns.size, np.int64), columns, indptr), shape=(len(rows), n))
