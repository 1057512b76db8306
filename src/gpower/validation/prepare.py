"""The one room that every fit enters: data and parameters in; table, operator, moments and recipes out, once.

`read` checks what the user handed over and names its variables; `EstimatorInput.prepare` makes an operator of it, with
the means and scales that it applies, once it is known to hold numbers throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpower._utils.arrays import Array, is_device_array, to_host
from gpower._utils.warnings import InputFormatWarning, warn
from gpower.operators import Container, Moments, Operator, as_container, as_operator
from gpower.operators.base import PassCounter
from gpower.operators.moments import compute_container_moments
from gpower.operators.running_moments import MAX_STREAM_FEATURES, RunningMoments, compute_moments_by_part
from gpower.operators.storage.blocks import BlockMatrix
from gpower.solvers.specification import GRAM_COLUMNS_PER_PASS, FitSpec
from gpower.solvers.working_set import MAX_DIRECT_ENTRIES
from gpower.validation.covariance import check_covariance, detect_matrix_kind
from gpower.validation.data import check_finite, check_range, check_table, format_variable_name
from gpower.validation.imputation import impute
from gpower.validation.params import (
    build_fit_spec,
    check_int,
    check_option,
    check_sample_weight,
    get_constructor_params,
)
from gpower.validation.variable_rules import VARIABLE_RULE_NAMES, VariableRules, check_required_have_variance

#: Data that are read in blocks are replaced by the covariance of up to this many variables whatever is asked of them.
MAX_REMOTE_GRAM_VARIABLES = 4096
#: Entries of a sparse table that is made dense to be permuted: 2 GB in double precision, half of it in single.
MAX_PERMUTED_ENTRIES = 250_000_000
#: Entries of a table in single precision that is worked on in double, 32 MB.
MAX_UPCAST_ENTRIES = 4_000_000
#: Bytes that an entry takes while it is permuted, and the fewest samples that a large table is permuted by.
BYTES_PER_PERMUTED_ENTRY, MIN_PERMUTED_SAMPLES = 40, 1000


@dataclass(frozen=True)
class DataParams:
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
    def from_params(cls, params: Mapping[str, Any]) -> DataParams:
        """Those among the parameters of an estimator."""
        return cls(**{each.name: params[each.name] for each in fields(cls) if each.name in params})


@dataclass(frozen=True, eq=False)
class PreparedData:
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
    fit_specs: tuple[FitSpec, ...] = ()
    build_float64_operator: Callable[[], Operator] | None = None
    feature_names: Array | None = None
    preprocessing_notes: tuple[str, ...] = ()
    input_dtype: np.dtype[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is reported: that of the data."""
        return self.operator.dtype if self.input_dtype is None else self.input_dtype

    def get_float64_operator(self) -> Operator:
        """The operator in float64, as proofs need it."""
        return (
            self.operator
            if self.operator.dtype == np.float64 or self.build_float64_operator is None
            else self.build_float64_operator()
        )

    @property
    def fit_spec(self) -> FitSpec:
        """The only one, or the first."""
        return self.fit_specs[0]

    @cached_property
    def max_correlations(self) -> Array:
        """The largest possible correlations of the columns, by the variance in use."""
        return self.fit_spec.sparsity.sample_set.compute_max_correlations(self.operator)

    @property
    def constant_columns(self) -> Array:
        """Indices of the columns that do not vary."""
        return to_host(np.flatnonzero(self.moments.column_norms == 0))

    @property
    def has_variance(self) -> bool:
        """Whether any column does."""
        return bool(self.moments.column_norms.any())

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of the data, a sentence each."""
        constant = self.constant_columns
        if not constant.size:
            return self.preprocessing_notes
        shown = ", ".join(format_variable_name(j, self.feature_names) for j in constant[:3]) + (
            ", …" if constant.size > 3 else ""
        )
        return (*self.preprocessing_notes, f"{constant.size} column(s) do not vary and get no loading: {shown}.")


@dataclass(frozen=True, eq=False)
class EstimatorInput:
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
    data_params: DataParams
    feature_names: Array | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    preprocessing_notes: tuple[str, ...] = ()

    @cached_property
    def container(self) -> Container:
        """What X is kept in."""
        return as_container(self.X)

    @property
    def block_matrix(self) -> BlockMatrix | None:
        """The same where it is in blocks."""
        return self.container if isinstance(self.container, BlockMatrix) else None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def select_samples(self, idx: Array) -> EstimatorInput:
        """Some of the samples."""
        return replace(self, X=self.X[idx])

    def load_into_memory(self, reason: str) -> EstimatorInput:
        """The same in the memory of this machine, read into it where it fits; `why` says what needs that."""
        if not self.container.storage_description:
            return self
        if self.block_matrix is not None and self.block_matrix.fits_in_memory:
            return replace(self, X=self.block_matrix.take(np.arange(self.shape[1])).A)
        excess = "" if self.block_matrix is None else f", {self.block_matrix.memory_excess_message}"
        raise ValueError(f"{reason}; X is {self.container.storage_description}{excess}.")

    def require_finite(self, allow_nan: bool = False) -> EstimatorInput:
        """The same, if it holds numbers throughout."""
        check_finite(self.X, self.feature_names, allow_nan=allow_nan)
        return self

    def to_float64(self) -> EstimatorInput:
        """The same in float64, not copied if it is."""
        return replace(self, X=self.X.astype(np.float64, copy=False))

    def build_fit_specs(self, *variants: Mapping[str, Any]) -> list[FitSpec]:
        """What the estimator asks for on data of this shape: one recipe, or one per variant of its parameters."""
        found = [
            build_fit_spec({**self.params, **variant}, self.shape, self.feature_names) for variant in variants or ({},)
        ]
        if is_device_array(self.X) and any(
            recipe.sparsity.penalty_family.support_rules is not None for recipe in found
        ):
            raise ValueError(f"{', '.join(VARIABLE_RULE_NAMES)} work on the host only; pass X.get() or X.cpu().")
        return found

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """The fewest and the most variables, or groups of them, that the estimator lets a component have."""
        count = check_int(self.data_params.n_components, "n_components", 1)
        return VariableRules.from_params(self.params, self.shape[1], count, self.feature_names).cardinality_range

    def fill_missing(self, rank: int | None = None) -> EstimatorInput:
        """The same as a fit wants it: in memory where a proof is to follow, missing entries filled where asked for.

        By so many components, if not by as many as are fitted.
        """
        reading = self.data_params
        if reading.certify and self.container.storage_description and not is_device_array(self.X):
            return self.load_into_memory("A certificate needs the matrix in the memory of this machine").fill_missing(
                rank
            )
        if is_device_array(self.X):
            self._check_device_support()
        if check_option(reading.missing, "missing", ("error", "impute")) == "error":
            return self
        where, sparse = self.container.storage_description, self.container.is_sparse
        if where or sparse or reading.covariance is not None:
            what = where or ("a sparse matrix, whose absent entries are zeros" if sparse else "a covariance")
            raise ValueError(f'missing="impute" fills the holes of a dense table of samples; X is {what}.')
        self.require_finite(allow_nan=True)
        if not np.isnan(np.sum(self.X)):
            return self
        rank = check_int(reading.n_components, "n_components", 1) if rank is None else rank
        standard = {"center": bool(reading.center), "scale": bool(reading.scale)}
        filled = impute(self.X, rank, **standard, names=self.feature_names)
        return replace(self, X=filled.X, preprocessing_notes=(filled.note,))

    def prepare_for_permutation(self) -> EstimatorInput:
        """The same, if its columns can be permuted: a table of samples in memory, made dense, holes at their means.

        Holes filled by components are what permuted tables do not have: in noise they would pass for more than chance.
        """
        if self.data_params.covariance is not None:
            raise ValueError(
                "Permuting needs the samples: it breaks what variables have in common, and a covariance is nothing "
                'else. covariance="precomputed" has none; give the data.'
            )
        if self.container.storage_description:
            return self._subsample_for_permutation().prepare_for_permutation()
        if not self.container.is_sparse:
            return self.fill_missing(0).require_finite()
        size = self.shape[0] * self.shape[1]
        if size > MAX_PERMUTED_ENTRIES:
            raise ValueError(
                f"Permuting needs a dense table; X is sparse, of {size:.2g} entries, more than "
                f"{MAX_PERMUTED_ENTRIES:.2g}: give fewer samples, or the variables of largest variance: "
                "chance finds its components among those."
            )
        self.fill_missing(0).require_finite()
        return replace(self, X=self.X.toarray())

    def _subsample_for_permutation(self) -> EstimatorInput:
        """A table in blocks, or as many of its samples as can be permuted in memory: chance among them is chance."""
        (p, n), blocks = self.shape, self.block_matrix
        most = 0 if blocks is None else int(blocks.memory_limit / (BYTES_PER_PERMUTED_ENTRY * n))
        if blocks is None or not MIN_PERMUTED_SAMPLES <= most < p:
            return self.load_into_memory("Permuting needs the table in the memory of this machine")
        warn(
            f"X is {blocks.storage_description}: {most} of its {p} samples, drawn at random, are held against chance, "
            "as many as memory_limit lets be permuted."
        )
        return replace(self, X=blocks.take_rows(np.sort(np.random.default_rng(0).choice(p, most, replace=False))))

    def _check_device_support(self) -> None:
        """Refuse what is not done on a device."""
        ordinary = {"variance": "l2", "covariance": None, "missing": "error", "certify": False}
        asked = vars(self.data_params)
        odd = [f"{name}={asked[name]!r}" for name, value in ordinary.items() if asked[name] != value]
        if odd:
            raise ValueError(f"{', '.join(odd)} works on the host only; pass X.get() or X.cpu().")

    def prepare(
        self, sample_weight: Any = None, fit_specs: Sequence[FitSpec] = (), *, reduce: bool | None = None
    ) -> PreparedData:
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
        precomputed = self.data_params.covariance == "precomputed"
        if self.shape[0] == 1 and self.data_params.center and not precomputed:
            raise ValueError("n_samples=1: a single sample has no variance about its mean; give more, or center=False.")
        table, remarks = self._validate_covariance(sample_weight) if precomputed else (self, self.preprocessing_notes)
        if table.block_matrix is not None and table.block_matrix.fits_in_memory and table._should_load_into_memory:
            table = table.load_into_memory("A small table is solved in memory")
        table = table.to_float64() if table._should_upcast else table
        weight = check_sample_weight(sample_weight, self.shape[0], table.X.dtype)
        operator, moments = table._build_operator(
            weight, self._should_reduce_to_covariance(fit_specs) if reduce is None else reduce
        )
        check_finite(table.X, self.feature_names, moments.column_norms)
        check_range(moments.column_norms, self.feature_names, self.X.dtype)
        check_required_variables(fit_specs, moments.column_norms, self.feature_names)
        return PreparedData(
            operator,
            moments,
            tuple(fit_specs),
            lambda: table.to_float64()._build_operator(weight, True, moments)[0],
            feature_names=self.feature_names,
            preprocessing_notes=remarks,
            input_dtype=self.X.dtype,
        )

    @property
    def _should_load_into_memory(self) -> bool:
        """Whether it is read into memory from wherever it is, so that the same table gives the same answer."""
        return self.shape[0] * self.shape[1] <= MAX_DIRECT_ENTRIES

    @property
    def _should_upcast(self) -> bool:
        """Whether double precision costs nothing: single would lose what earlier components nearly explain."""
        return isinstance(self.X, np.ndarray) and self.X.size <= MAX_UPCAST_ENTRIES

    def _build_operator(
        self, weight: Array | None, reduce: bool, moments: Moments | None = None
    ) -> tuple[Operator, Moments]:
        """The operator of these numbers; those that are not finite show in its norms."""
        reading = self.data_params
        with np.errstate(all="ignore"):
            return as_operator(
                self.X,
                center=reading.center,
                scale=reading.scale,
                sample_weight=weight,
                covariance=reading.covariance == "precomputed",
                reduce_tall=reduce,
                double_sums=reading.accumulation == "float64",
                moments=moments,
            )

    def _validate_covariance(self, sample_weight: Any) -> tuple[EstimatorInput, tuple[str, ...]]:
        """The same, if it is a covariance, and what was done to it."""
        stored = self.container.is_sparse or bool(self.container.storage_description)
        if stored or sample_weight is not None:
            what = "a dense matrix in memory" if stored else "no sample_weight"
            raise ValueError(f'covariance="precomputed" takes {what}.')
        S, remarks = check_covariance(self.require_finite().X, self.data_params.psd)
        return replace(self, X=S), remarks

    def _should_reduce_to_covariance(self, fit_specs: Sequence[FitSpec]) -> bool:
        """Whether the covariance of tall data serves the recipes, and costs less than the reads that they will make."""
        n, reads = self.shape[1], sum(recipe.estimate_passes(self.shape[1]) for recipe in fit_specs)
        few = n <= GRAM_COLUMNS_PER_PASS * reads or (self.container.is_remote and n <= MAX_REMOTE_GRAM_VARIABLES)
        return few and not any(recipe.needs_samples for recipe in fit_specs)

    def accumulate_moments(
        self, earlier: RunningMoments | None, sample_weight: Any
    ) -> tuple[RunningMoments, PreparedData]:
        """What is known of a batch of samples and all earlier ones, and what a fit to them works on."""
        batch, n = self._compute_running_moments(sample_weight), self.shape[1]
        seen = batch if earlier is None else earlier.merge(batch)
        standard = (bool(self.data_params.center), bool(self.data_params.scale))
        recipe = build_fit_spec(self.params, (n, n), self.feature_names)
        found, moments = seen.to_operator(*standard)
        check_required_variables([recipe], moments.column_norms, self.feature_names)
        return seen, PreparedData(
            found, moments, (recipe,), lambda: seen.to_float64().to_operator(*standard)[0], self.feature_names
        )

    def compute_moments_by_part(self, part: Array, count: int) -> list[RunningMoments]:
        """Moments of parts of the samples, once all are known to be numbers; two reads."""
        data = (self.to_float64() if self._should_upcast else self).fill_missing().container
        with np.errstate(all="ignore"):  # values that are not finite are named below
            found = compute_container_moments(data, True, False, None, PassCounter())
        check_finite(self.X, self.feature_names, found.column_norms)
        check_range(found.column_norms, self.feature_names, self.X.dtype)
        return compute_moments_by_part(data, found, part, count)

    def _compute_running_moments(self, sample_weight: Any) -> RunningMoments:
        """Moments of a batch of samples, once it is known to hold numbers throughout."""
        reading = self.data_params
        if reading.covariance is not None or reading.variance != "l2" or not isinstance(reading.init, str | None):
            raise ValueError(
                'partial_fit keeps the covariance of samples, not the samples: it needs covariance=None, variance="l2" '
                'and an init of None or "paper".'
            )
        if self.shape[1] > MAX_STREAM_FEATURES:
            raise ValueError(
                f"partial_fit keeps the covariance of all variables, and n_features={self.shape[1]} are more than "
                f"{MAX_STREAM_FEATURES}; fit a file or a Dask array instead, which are read in blocks."
            )
        weight = check_sample_weight(sample_weight, self.shape[0], self.X.dtype)
        with np.errstate(all="ignore"):  # values that are not finite are named below
            moments = RunningMoments.from_batch(self.X, weight)
        check_finite(self.X, self.feature_names, np.diagonal(moments.scatter))
        return moments


def check_required_variables(fit_specs: Sequence[FitSpec], norms: Array, names: Array | None) -> None:
    """Refuse variables that must be used and do not vary."""
    for known in filter(None, (recipe.sparsity.penalty_family.support_rules for recipe in fit_specs[:1])):
        check_required_have_variance(known, norms, names)


def read_estimator_input(estimator: BaseEstimator, X: Any, *, reset: bool = True) -> EstimatorInput:
    """What `fit` or `transform` of an estimator was given, which learns or checks the number and names of variables."""
    params = get_constructor_params(estimator)
    table = check_table(estimator, X, reset=reset, memory_limit=params.get("memory_limit"))
    reading, names = DataParams.from_params(params), vars(estimator).get("feature_names_in_")
    if reset and reading.covariance is None and isinstance(table, np.ndarray):
        rows = getattr(X, "index", None)
        kind = detect_matrix_kind(table, rows is not None and names is not None and list(rows) == list(names))
        if kind:
            warn(f'The table looks like a {kind} matrix; if it is, add covariance="precomputed".', InputFormatWarning)
    return EstimatorInput(table, reading, names, params)
