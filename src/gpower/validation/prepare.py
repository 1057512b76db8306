"""The one room that every fit enters: data and parameters in; table, operator, moments and recipes out, once.

`read` checks what the user handed over and names its variables; `Input.prepared` makes an operator of it, with the
means and scales that it applies, once it is known to hold numbers throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpower._utils.arrays import Array, is_device, to_host
from gpower._utils.warnings import Doubt, warn
from gpower.operators import Container, Moments, Operator, as_operator, container_of
from gpower.operators.base import PassCounter
from gpower.operators.moments import column_moments
from gpower.operators.running_moments import MOST_FEATURES, RunningMoments, moments_by_part
from gpower.operators.storage.blocks import BlockMatrix
from gpower.solvers.specification import GRAM_READS, Recipe
from gpower.solvers.working_set import SMALL
from gpower.validation.covariance import check_covariance, matrix_kind
from gpower.validation.data import check_finite, check_range, check_table, name_of
from gpower.validation.imputation import impute
from gpower.validation.params import check_weights, one_of, parameters_of, recipe_from, whole
from gpower.validation.variable_rules import WORDS, Knowledge, check_varies

#: Data that are read in blocks are replaced by the covariance of up to this many variables whatever is asked of them.
MOST_GRAM = 4096
#: Entries of a sparse table that is made dense to be permuted: 2 GB in double precision, half of it in single.
MOST_PERMUTED = 250_000_000
#: Entries of a table in single precision that is worked on in double, 32 MB.
CHEAP_IN_DOUBLE = 4_000_000
#: Bytes that an entry takes while it is permuted, and the fewest samples that a large table is permuted by.
PERMUTED_BYTES, FEWEST_PERMUTED = 40, 1000


@dataclass(frozen=True)
class Reading:
    """The parameters of an estimator that say how its data are read; those that it does not have are as usual."""

    n_components: int = 1
    covariance: str | None = None
    psd: str = "lift"
    variance: str = "l2"
    center: bool = True
    scale: bool = False
    missing: str = "error"
    certify: bool = False
    accumulation: str | None = None
    init: Any = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Reading:
        """Those among the parameters of an estimator."""
        return cls(**{each.name: params[each.name] for each in fields(cls) if each.name in params})


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a fit works on.

    Attributes
    ----------
    operator : Operator
    moments : Moments
        Means, scales and norms that the operator applies.
    recipes : tuple of Recipe
        One, or one per point of a grid.
    again : callable, optional
        Makes the operator anew in float64, from the data rather than from what single precision left of them.
    names : ndarray of str or None
        Of the variables.
    remarks : tuple of str
        What was done to the data that the user did not ask for.
    given : dtype, optional
        Of the data, where the operator has another.
    """

    operator: Operator
    moments: Moments
    recipes: tuple[Recipe, ...] = ()
    again: Callable[[], Operator] | None = None
    names: Array | None = None
    remarks: tuple[str, ...] = ()
    given: np.dtype[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is reported: that of the data."""
        return self.operator.dtype if self.given is None else self.given

    def in_double(self) -> Operator:
        """The operator in float64, as proofs need it."""
        return self.operator if self.operator.dtype == np.float64 or self.again is None else self.again()

    @property
    def recipe(self) -> Recipe:
        """The only one, or the first."""
        return self.recipes[0]

    @cached_property
    def reach(self) -> Array:
        """The largest possible correlations of the columns, by the variance in use."""
        return self.recipe.wish.samples.reach(self.operator)

    @property
    def constant(self) -> Array:
        """Indices of the columns that do not vary."""
        return to_host(np.flatnonzero(self.moments.norms == 0))

    @property
    def varies(self) -> bool:
        """Whether any column does."""
        return bool(self.moments.norms.any())

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of the data, a sentence each."""
        constant = self.constant
        if not constant.size:
            return self.remarks
        shown = ", ".join(name_of(j, self.names) for j in constant[:3]) + (", …" if constant.size > 3 else "")
        return (*self.remarks, f"{constant.size} column(s) do not vary and get no loading: {shown}.")


@dataclass(frozen=True, eq=False)
class Input:
    """Samples × variables, or a covariance: a float32 or float64 matrix, not yet looked through for holes.

    Attributes
    ----------
    X : ndarray, CSR or CSC matrix, array on a device, or matrix in blocks
    reading : Reading
    names : ndarray of str or None
        Of the variables.
    params : mapping
        All parameters of the estimator that it was given to.
    remarks : tuple of str
        What was done to it, a sentence each.
    """

    X: Any
    reading: Reading
    names: Array | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @cached_property
    def container(self) -> Container:
        """What X is kept in."""
        return container_of(self.X)

    @property
    def blocks(self) -> BlockMatrix | None:
        """The same where it is in blocks."""
        return self.container if isinstance(self.container, BlockMatrix) else None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def rows(self, idx: Array) -> Input:
        """Some of the samples."""
        return replace(self, X=self.X[idx])

    def in_memory(self, why: str) -> Input:
        """The same in the memory of this machine, read into it where it fits; `why` says what needs that."""
        if not self.container.whereabouts:
            return self
        if self.blocks is not None and self.blocks.fits:
            return replace(self, X=self.blocks.part(np.arange(self.shape[1])).A)
        excess = "" if self.blocks is None else f", {self.blocks.excess}"
        raise ValueError(f"{why}; X is {self.container.whereabouts}{excess}.")

    def finite(self, allow_nan: bool = False) -> Input:
        """The same, if it holds numbers throughout."""
        check_finite(self.X, self.names, allow_nan=allow_nan)
        return self

    def in_double(self) -> Input:
        """The same in float64, not copied if it is."""
        return replace(self, X=self.X.astype(np.float64, copy=False))

    def recipes(self, *variants: Mapping[str, Any]) -> list[Recipe]:
        """What the estimator asks for on data of this shape: one recipe, or one per variant of its parameters."""
        found = [recipe_from({**self.params, **variant}, self.shape, self.names) for variant in variants or ({},)]
        if is_device(self.X) and any(recipe.wish.family.admissible is not None for recipe in found):
            raise ValueError(f"{', '.join(WORDS)} work on the host only; pass X.get() or X.cpu().")
        return found

    @property
    def numbers(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups of them, that the estimator lets a component have."""
        count = whole(self.reading.n_components, "n_components", 1)
        return Knowledge.of(self.params, self.shape[1], count, self.names).numbers

    def filled(self, rank: int | None = None) -> Input:
        """The same as a fit wants it: in memory where a proof is to follow, missing entries filled where asked for.

        By so many components, if not by as many as are fitted.
        """
        reading = self.reading
        if reading.certify and self.container.whereabouts and not is_device(self.X):
            return self.in_memory("A certificate needs the matrix in the memory of this machine").filled(rank)
        if is_device(self.X):
            self._check_device()
        if one_of(reading.missing, "missing", ("error", "impute")) == "error":
            return self
        where, sparse = self.container.whereabouts, self.container.is_sparse
        if where or sparse or reading.covariance is not None:
            what = where or ("a sparse matrix, whose absent entries are zeros" if sparse else "a covariance")
            raise ValueError(f'missing="impute" fills the holes of a dense table of samples; X is {what}.')
        self.finite(allow_nan=True)
        if not np.isnan(np.sum(self.X)):
            return self
        rank = whole(reading.n_components, "n_components", 1) if rank is None else rank
        standard = {"center": bool(reading.center), "scale": bool(reading.scale)}
        filled = impute(self.X, rank, **standard, names=self.names)
        return replace(self, X=filled.X, remarks=(filled.note,))

    def for_permuting(self) -> Input:
        """The same, if its columns can be permuted: a table of samples in memory, made dense, holes at their means.

        Holes filled by components are what permuted tables do not have: in noise they would pass for more than chance.
        """
        if self.reading.covariance is not None:
            raise ValueError(
                "Permuting needs the samples: it breaks what variables have in common, and a covariance is nothing "
                'else. covariance="precomputed" has none; give the data.'
            )
        if self.container.whereabouts:
            return self._drawn().for_permuting()
        if not self.container.is_sparse:
            return self.filled(0).finite()
        size = self.shape[0] * self.shape[1]
        if size > MOST_PERMUTED:
            raise ValueError(
                f"Permuting needs a dense table; X is sparse, of {size:.2g} entries, more than {MOST_PERMUTED:.2g}: "
                "give fewer samples, or the variables of largest variance: chance finds its components among those."
            )
        self.filled(0).finite()
        return replace(self, X=self.X.toarray())

    def _drawn(self) -> Input:
        """A table in blocks, or as many of its samples as can be permuted in memory: chance among them is chance."""
        (p, n), blocks = self.shape, self.blocks
        most = 0 if blocks is None else int(blocks.memory_limit / (PERMUTED_BYTES * n))
        if blocks is None or not FEWEST_PERMUTED <= most < p:
            return self.in_memory("Permuting needs the table in the memory of this machine")
        warn(
            f"X is {blocks.whereabouts}: {most} of its {p} samples, drawn at random, are held against chance, as many "
            "as memory_limit lets be permuted."
        )
        return replace(self, X=blocks.stored_rows(np.sort(np.random.default_rng(0).choice(p, most, replace=False))))

    def _check_device(self) -> None:
        """Refuse what is not done on a device."""
        ordinary = {"variance": "l2", "covariance": None, "missing": "error", "certify": False}
        asked = vars(self.reading)
        odd = [f"{name}={asked[name]!r}" for name, value in ordinary.items() if asked[name] != value]
        if odd:
            raise ValueError(f"{', '.join(odd)} works on the host only; pass X.get() or X.cpu().")

    def prepared(
        self, sample_weight: Any = None, recipes: Sequence[Recipe] = (), *, reduce: bool | None = None
    ) -> Prepared:
        """The operator of the data, centred and scaled as asked.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
        recipes : sequence of Recipe
            What is to be done with it.
        reduce : bool, optional
            Whether tall data may be replaced by their covariance; by default where the recipes need no samples and the
            reads that they are expected to make pay for it.
        """
        precomputed = self.reading.covariance == "precomputed"
        if self.shape[0] == 1 and self.reading.center and not precomputed:
            raise ValueError("n_samples=1: a single sample has no variance about its mean; give more, or center=False.")
        table, remarks = self._covariance(sample_weight) if precomputed else (self, self.remarks)
        if table.blocks is not None and table.blocks.fits and table._is_tiny:
            table = table.in_memory("A small table is solved in memory")
        table = table.in_double() if table._is_small else table
        weight = check_weights(sample_weight, self.shape[0], table.X.dtype)
        operator, moments = table._operator(weight, self._pays(recipes) if reduce is None else reduce)
        check_finite(table.X, self.names, moments.norms)
        check_range(moments.norms, self.names, self.X.dtype)
        check_included(recipes, moments.norms, self.names)
        return Prepared(
            operator,
            moments,
            tuple(recipes),
            lambda: table.in_double()._operator(weight, True, moments)[0],
            names=self.names,
            remarks=remarks,
            given=self.X.dtype,
        )

    @property
    def _is_tiny(self) -> bool:
        """Whether it is read into memory from wherever it is, so that the same table gives the same answer."""
        return self.shape[0] * self.shape[1] <= SMALL

    @property
    def _is_small(self) -> bool:
        """Whether double precision costs nothing: single would lose what earlier components nearly explain."""
        return isinstance(self.X, np.ndarray) and self.X.size <= CHEAP_IN_DOUBLE

    def _operator(self, weight: Array | None, reduce: bool, moments: Moments | None = None) -> tuple[Operator, Moments]:
        """The operator of these numbers; those that are not finite show in its norms."""
        reading = self.reading
        with np.errstate(all="ignore"):
            return as_operator(
                self.X,
                center=reading.center,
                scale=reading.scale,
                sample_weight=weight,
                covariance=reading.covariance == "precomputed",
                reduce=reduce,
                double_sums=reading.accumulation == "float64",
                moments=moments,
            )

    def _covariance(self, sample_weight: Any) -> tuple[Input, tuple[str, ...]]:
        """The same, if it is a covariance, and what was done to it."""
        stored = self.container.is_sparse or bool(self.container.whereabouts)
        if stored or sample_weight is not None:
            what = "a dense matrix in memory" if stored else "no sample_weight"
            raise ValueError(f'covariance="precomputed" takes {what}.')
        S, remarks = check_covariance(self.finite().X, self.reading.psd)
        return replace(self, X=S), remarks

    def _pays(self, recipes: Sequence[Recipe]) -> bool:
        """Whether the covariance of tall data serves the recipes, and costs less than the reads that they will make."""
        n, reads = self.shape[1], sum(recipe.reads(self.shape[1]) for recipe in recipes)
        few = n <= GRAM_READS * reads or (self.container.is_remote and n <= MOST_GRAM)
        return few and not any(recipe.needs_samples for recipe in recipes)

    def added_to(self, earlier: RunningMoments | None, sample_weight: Any) -> tuple[RunningMoments, Prepared]:
        """What is known of a batch of samples and all earlier ones, and what a fit to them works on."""
        batch, n = self._running(sample_weight), self.shape[1]
        seen = batch if earlier is None else earlier.merged(batch)
        standard = (bool(self.reading.center), bool(self.reading.scale))
        recipe = recipe_from(self.params, (n, n), self.names)
        found, moments = seen.operator(*standard)
        check_included([recipe], moments.norms, self.names)
        return seen, Prepared(found, moments, (recipe,), lambda: seen.in_double().operator(*standard)[0], self.names)

    def by_part(self, part: Array, count: int) -> list[RunningMoments]:
        """Moments of parts of the samples, once all are known to be numbers; two reads."""
        data = (self.in_double() if self._is_small else self).filled().container
        with np.errstate(all="ignore"):  # values that are not finite are named below
            found = column_moments(data, True, False, None, PassCounter())
        check_finite(self.X, self.names, found.norms)
        check_range(found.norms, self.names, self.X.dtype)
        return moments_by_part(data, found, part, count)

    def _running(self, sample_weight: Any) -> RunningMoments:
        """Moments of a batch of samples, once it is known to hold numbers throughout."""
        reading = self.reading
        if reading.covariance is not None or reading.variance != "l2" or not isinstance(reading.init, str | None):
            raise ValueError(
                'partial_fit keeps the covariance of samples, not the samples: it needs covariance=None, variance="l2" '
                'and an init of None or "paper".'
            )
        if self.shape[1] > MOST_FEATURES:
            raise ValueError(
                f"partial_fit keeps the covariance of all variables, and n_features={self.shape[1]} are more than "
                f"{MOST_FEATURES}; fit a file or a Dask array instead, which are read in blocks."
            )
        weight = check_weights(sample_weight, self.shape[0], self.X.dtype)
        with np.errstate(all="ignore"):  # values that are not finite are named below
            moments = RunningMoments.of(self.X, weight)
        check_finite(self.X, self.names, np.diagonal(moments.scatter))
        return moments


def check_included(recipes: Sequence[Recipe], norms: Array, names: Array | None) -> None:
    """Refuse variables that must be used and do not vary."""
    for known in filter(None, (recipe.wish.family.admissible for recipe in recipes[:1])):
        check_varies(known, norms, names)


def read(estimator: BaseEstimator, X: Any, *, reset: bool = True) -> Input:
    """What `fit` or `transform` of an estimator was given, which learns or checks the number and names of variables."""
    params = parameters_of(estimator)
    table = check_table(estimator, X, reset=reset, memory_limit=params.get("memory_limit"))
    reading, names = Reading.of(params), vars(estimator).get("feature_names_in_")
    if reset and reading.covariance is None and isinstance(table, np.ndarray):
        rows = getattr(X, "index", None)
        kind = matrix_kind(table, rows is not None and names is not None and list(rows) == list(names))
        if kind:
            warn(f'The table looks like a {kind} matrix; if it is, add covariance="precomputed".', Doubt)
    return Input(table, reading, names, params)
