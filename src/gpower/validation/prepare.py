"""Preparation of a fit: from data and parameters to an operator, its moments and the specifications of the fit.

`read_estimator_input` checks the data and names the variables; `EstimatorInput.prepare` builds the operator with the
means and scales that it applies, and checks that all entries are finite.

Terms: data are n_samples × n_features, or a covariance, n_features × n_features. A `Container` stores them: `shape`,
`dtype`, `is_sparse`, `is_on_device`, `is_remote` (read in blocks); `storage_description` is where they are, empty in
host memory, also of a sparse matrix. A `BlockMatrix` is a container that is read in blocks: ``take_rows(idx)`` are some
rows as an array or a CSR matrix, idx being increasing, ``take(idx).A`` some columns; `fits_in_memory`, `memory_limit`
(bytes) and `memory_excess_message` (a clause with the remedy). An `Operator` is the centred, scaled, weighted matrix A
through products, in the dtype and memory of the data; as a `Covariance` it has no samples. `Moments` have `mean`,
`scale` and `column_norms`, (n_features,), in float64, where the data are; the norms are those of A, exactly zero for
constant columns. ``as_operator(X, …)`` returns both; `reduce_tall` allows a covariance in place of tall data.

A `FitSpec` is the specification of a fit: `needs_samples`; ``estimate_passes(n)``, products with the matrix;
and `sparsity`, whose ``penalty_family.support_rules`` are rules on the variables or None, and whose `sample_set` has
``compute_max_correlations(operator)``, (n_features,), in the memory of the matrix. `RunningMoments` are means and
scatter matrices of samples, in float64 on the host: ``from_batch(X, weight)``, ``merge(other)``, a new object,
``to_float64()``, and ``to_operator(center, scale)``, a `Covariance` and moments; `scatter`, (n_features, n_features).

`Covariates` and `CovariateVariables` (for a covariance) are what is removed from the variables: ``regress(container,
weight, center)`` is a `CovariateRegression`, with `residuals`, a container or an array, and `encoding`, with the names
of the encoded covariates. ``balance_batches(batch, weight)`` are weights with which batches have equal weight;
``predict_missing(X, center)`` is a copy of X without NaN.

Checks raise ValueError (`check_table` also TypeError) that name the variable. ``check_sample_weight(w, n,
dtype)`` returns None or a NumPy array, (n,), in that dtype, finite, non-negative and not all zero.

``check_finite(X, names, sums)`` looks for entries that are not finite, at once if `sums`, (n_features,), are finite;
``check_range(norms, names, dtype)`` for norms that are too large or small; ``check_int(value, name, minimum)`` and
``check_option(value, name, options)`` return the value. ``get_constructor_params(estimator)`` are its parameters by
name; ``resolve_solver(params)`` is a new dictionary with a `Solver` as `solver`, an object with `init` and
`accumulate_dtype`; ``build_fit_spec(params, shape, names)`` is a `FitSpec`. ``VariableRules.from_params`` has
`cardinality_range`. ``read_covariates(…)`` are covariates and then batches, (n_samples,), by name;
``CovariateEncoding.from_columns(columns).encode(columns)``, (n_samples, c), float64, are the encoded ones;
``CovariateVariables.find(selectors, names, n)`` are variables of a covariance. ``compute_variance_ratio(moments,
standardized)`` of a regression is the share of the variance that was removed. ``impute(X, rank, …)`` has `X`, a filled
copy, and `note`. ``detect_matrix_kind(X, same_names)`` is "correlation", "covariance" or "".
``compute_container_moments(X, center, scale, w, counter)`` are `Moments`; ``compute_moments_by_part(X, moments, part,
count)`` are `RunningMoments`, one per part, to which ``append_columns(moments, X, C, part)`` adds columns C.
``to_host(v)`` is v as a NumPy array, ``format_variable_name(j, names)`` how a message names variable j, and
``warn(message, category)`` warns at the line of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpower._utils.arrays import Array, to_host
from gpower._utils.messages import format_param
from gpower._utils.warnings import InputFormatWarning, warn
from gpower.operators import Container, Moments, Operator, as_container, as_operator
from gpower.operators.base import PassCounter
from gpower.operators.moments import compute_container_moments
from gpower.operators.running_moments import (
    MAX_STREAM_FEATURES,
    RunningMoments,
    append_columns,
    compute_moments_by_part,
)
from gpower.operators.storage.blocks import BlockMatrix
from gpower.solvers.fit_specification import GRAM_COLUMNS_PER_PASS, FitSpec
from gpower.solvers.working_set import MAX_DIRECT_ENTRIES
from gpower.validation.checks import check_finite, check_range, check_sample_weight, check_table, format_variable_name
from gpower.validation.covariance import check_covariance, detect_matrix_kind
from gpower.validation.covariates import (
    BATCH_NAME,
    CovariateEncoding,
    CovariateRegression,
    Covariates,
    CovariateVariables,
    balance_batches,
    read_covariates,
)
from gpower.validation.imputation import impute
from gpower.validation.params import build_fit_spec, check_int, check_option, get_constructor_params, resolve_solver
from gpower.validation.variable_rules import VARIABLE_RULE_NAMES, VariableRules, check_required_have_variance

#: Data that are read in blocks are replaced by their covariance up to this number of variables, whatever is fitted.
MAX_REMOTE_GRAM_VARIABLES = 4096
#: Largest number of entries of a sparse table that is made dense for permutation: 2 GB in float64, 1 GB in float32.
MAX_PERMUTED_ENTRIES = 250_000_000
#: Largest number of entries of a table that is copied to float64: 32 MB.
MAX_UPCAST_ENTRIES = 4_000_000
#: Bytes per entry during permutation, and the smallest number of samples drawn from a table that is too large.
BYTES_PER_PERMUTED_ENTRY, MIN_PERMUTED_SAMPLES = 40, 1000
#: Parameters about the data, with their values for an estimator that does not have them.
DATA_PARAM_DEFAULTS = {
    "n_components": 1,
    "covariance": None,
    "variance": "l2",
    "center": True,
    "scale": False,
    "missing": "error",
    "balance": False,
    "certify": False,
    "memory_limit": None,
}


@dataclass(frozen=True, eq=False)
class PreparedData:
    """The input of a solver: operator, moments and specifications.

    Attributes
    ----------
    operator : Operator
        The centred and scaled matrix, or its covariance, which has no samples; in host memory, on a device or in
        blocks, as the data are.
    moments : Moments
        Means, scales and norms of the columns that the operator applies, each (n_features,); on the device of the data
        if they are on one. For a precomputed covariance zeros, ones and the roots of its diagonal.
    fit_specs : tuple of FitSpec
        One specification, or one per point of a grid; empty if nothing is fitted, as for a certificate.
    feature_names : ndarray of str or None
        Names of the variables.
    preprocessing_notes : tuple of str
        Changes of the data that the user did not request, one message each.
    input_dtype : dtype, optional
        Type of the data, if the operator has another one.
    covariates : CovariateRegression, optional
        The regression of the variables on the covariates, if the operator is that of its residuals.
    is_standardized : bool
        Whether the variables were scaled to unit variance.
    """

    operator: Operator
    moments: Moments
    fit_specs: tuple[FitSpec, ...] = ()
    feature_names: Array | None = None
    preprocessing_notes: tuple[str, ...] = ()
    input_dtype: np.dtype[Any] | None = None
    covariates: CovariateRegression | None = None
    is_standardized: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of the fitted attributes: that of the data."""
        return self.operator.dtype if self.input_dtype is None else self.input_dtype

    @property
    def fit_spec(self) -> FitSpec:
        """Return the first specification."""
        return self.fit_specs[0]

    @cached_property
    def max_correlations(self) -> Array:
        """Return the largest possible correlation of each column, (n_features,): its norm as `variance` measures it.

        That is ‖aᵢ‖₂ of a column of the operator or, with ``variance="l1"``, the sum of √w|a| over the samples.
        """
        return self.fit_spec.sparsity.sample_set.compute_max_correlations(self.operator)

    @property
    def has_variance(self) -> bool:
        """Return whether any column varies."""
        return bool(self.moments.column_norms.any())

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes on the data, one message each: changes, the share of the covariates, and constant columns.

        At most one message is about constant columns, which names the first three. Norms on a device are transferred.
        """
        notes = self.preprocessing_notes
        if self.covariates is not None:
            names = ", ".join(dict.fromkeys(self.covariates.encoding.names))
            notes = (
                *notes,
                f"{names} predicted {self.covariate_variance_ratio:.1%} of the variance, which was removed.",
            )
        constant = to_host(np.flatnonzero(self.moments.column_norms == 0))  # of constant columns they are exactly zero
        if not constant.size:
            return notes
        shown = ", ".join(format_variable_name(j, self.feature_names) for j in constant[:3])
        shown += ", …" if constant.size > 3 else ""
        return (*notes, f"{constant.size} column(s) do not vary and get no loading: {shown}.")

    @property
    def covariate_variance_ratio(self) -> float:
        """Return the share of the variance that the covariates predict; of standardised variables, their mean share."""
        if self.covariates is None:
            return 0.0
        return self.covariates.compute_variance_ratio(self.moments, self.is_standardized)


@dataclass(frozen=True, eq=False)
class EstimatorInput:
    """A float32 or float64 matrix of samples × variables, or a covariance, not yet checked for missing values.

    Attributes
    ----------
    X : ndarray, CSR or CSC matrix, array on a device, or matrix in blocks
        The matrix.
    feature_names : ndarray of str or None
        Names of the variables.
    params : mapping
        All parameters of the estimator, not checked, with a `Solver` as `solver`, and `DATA_PARAM_DEFAULTS` for those
        that it does not have.
    preprocessing_notes : tuple of str
        Changes of the data, one message each.
    row_names : index of a frame or None
        Names of the samples, with which those of covariates are compared.
    covariates : Covariates, CovariateVariables or None
        What is removed from the variables; for a covariance, some of its variables.
    storage_name : str
        Name of the file or store that X was read from, also once it is in memory; empty if there is none.
    """

    X: Any
    params: Mapping[str, Any]
    feature_names: Array | None = None
    preprocessing_notes: tuple[str, ...] = ()
    row_names: Any = None
    covariates: Covariates | CovariateVariables | None = None
    storage_name: str = ""

    @cached_property
    def container(self) -> Container:
        """Return the container of X."""
        return as_container(self.X)

    @property
    def block_matrix(self) -> BlockMatrix | None:
        """Return the container if the matrix is read in blocks, else None."""
        return self.container if isinstance(self.container, BlockMatrix) else None

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n_samples, n_features)."""
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def select_samples(self, idx: Array) -> EstimatorInput:
        """Return the input with the samples `idx` only, (q,) of int on the host; a copy in memory.

        Their order is that of `idx`, which must be increasing for data in blocks. Names of the samples stay those of
        all of them, and covariates that are variables are dropped: it is not for a covariance.
        """
        X = self.X[idx] if self.block_matrix is None else self.block_matrix.take_rows(idx)
        covariates = self.covariates.select_samples(idx) if isinstance(self.covariates, Covariates) else None
        return replace(self, X=X, covariates=covariates)

    def with_covariates(self, covariates: Any = None, batch: Any = None) -> EstimatorInput:
        """Return the input with checked covariates and batch labels, which `prepare` removes from the variables.

        Arguments are those of `GPower.fit`; None stands for none. With a covariance, covariates are variables of it.
        """
        if covariates is None and batch is None:
            return self
        if self.params["covariance"] is None:
            columns = read_covariates(covariates, batch, self.shape[0], self.row_names)
            encoding = CovariateEncoding.from_columns(columns)
            labels = None if batch is None else columns[BATCH_NAME]
            return replace(self, covariates=Covariates(encoding, encoding.encode(columns), labels))
        if batch is not None:
            raise ValueError(
                f"batch= labels samples, of which {format_param('covariance', 'precomputed')} has none; give the data, "
                "or the covariance of the data that are centred in each batch."
            )
        found = CovariateVariables.find(covariates, self.feature_names, self.shape[1])
        return replace(self, covariates=found)

    def load_into_memory(self, reason: str) -> EstimatorInput:
        """Return the input in the memory of this machine; raise ValueError with the `reason` if it does not fit.

        An array on a device is not transferred: it raises too. Data in host memory are returned as they are, those in
        blocks as a NumPy array, if the container says that they fit.
        """
        if not self.container.storage_description:
            return self
        if self.block_matrix is not None and self.block_matrix.fits_in_memory:
            return replace(self, X=self.block_matrix.take(np.arange(self.shape[1])).A)
        excess = "" if self.block_matrix is None else f", {self.block_matrix.memory_excess_message}"
        raise ValueError(f"{reason}; X is {self.container.storage_description}{excess}.")

    def require_finite(self, allow_nan: bool = False) -> EstimatorInput:
        """Return the input; raise ValueError if it contains infinite values or, without `allow_nan`, missing ones.

        All entries are read, once; the error names the column and the row of the first such entry.
        """
        check_finite(self.X, self.feature_names, allow_nan=allow_nan, storage_name=self.storage_name)
        return self

    def to_float64(self) -> EstimatorInput:
        """Return the input in float64, without a copy if it has that type; X must not be in blocks."""
        return replace(self, X=self.X.astype(np.float64, copy=False))

    def build_fit_specs(self, *variants: Mapping[str, Any]) -> list[FitSpec]:
        """Return the specification of a fit to these data, or one per variant of the estimator's parameters.

        A variant contains only the parameters that differ. ``n_components="auto"`` must be replaced by a number. Raise
        ValueError for parameters that are not valid, and for rules on the variables of data on a device.
        """
        fit_specs = [
            build_fit_spec({**self.params, **variant}, self.shape, self.feature_names) for variant in variants or ({},)
        ]
        has_rules = any(spec.sparsity.penalty_family.support_rules is not None for spec in fit_specs)
        if self.container.is_on_device and has_rules:
            raise ValueError(f"{', '.join(VARIABLE_RULE_NAMES)} work on the host only; pass X.get() or X.cpu().")
        return fit_specs

    @property
    def cardinality_range(self) -> tuple[int, int]:
        """Return the smallest and largest number of variables, or of groups, that a component can have."""
        count = check_int(self.params["n_components"], "n_components", 1)
        return VariableRules.from_params(self.params, self.shape[1], count, self.feature_names).cardinality_range

    def fill_missing(self, rank: int | None = None) -> EstimatorInput:
        """Return the input with missing entries imputed if requested, and in memory if a certificate follows.

        `rank` is the number of components of the imputation model, by default as many as are fitted; 0 fills in means.
        With ``missing="error"`` missing entries stay: `prepare` raises for them. X is not changed; an imputed table is
        a new array in its dtype, with a note in place of earlier ones. Raise ValueError if the kind of data does not
        allow what the parameters ask for, and for infinite entries, or a row or column without an entry, of a table
        that is imputed.
        """
        if self.params["certify"] and self.container.storage_description and not self.container.is_on_device:
            return self.load_into_memory("A certificate needs the matrix in memory").fill_missing(rank)
        if self.container.is_on_device:
            self._check_device_support()
        if check_option(self.params["missing"], "missing", ("error", "impute")) == "error":
            return self
        where, sparse = self.container.storage_description, self.container.is_sparse
        if where or sparse or self.params["covariance"] is not None:
            what = where or ("a sparse matrix, whose absent entries are zeros" if sparse else "a covariance")
            raise ValueError(
                f"{format_param('missing', 'impute')} fills the holes of a dense table of samples; X is {what}."
            )
        self.require_finite(allow_nan=True)
        if not np.isnan(np.sum(self.X)):
            return self
        rank = check_int(self.params["n_components"], "n_components", 1) if rank is None else rank
        center, scale = bool(self.params["center"]), bool(self.params["scale"])
        imputed = impute(self.X, rank, center=center, scale=scale, names=self.feature_names)
        return replace(self, X=imputed.X, preprocessing_notes=(imputed.note,))

    def prepare_for_permutation(self) -> EstimatorInput:
        """Return the samples as a dense table in memory, missing entries at their means, for permutation.

        With covariates a missing entry is what they predict, so that its residual is zero. An imputation by components
        would introduce correlations that permuted tables do not have, so that components of pure noise would look
        significant. A table in blocks that is too large is replaced by a random subset of its samples, with a warning.
        X of the result is a NumPy array, maybe the given one, with finite entries only. Raise ValueError for a
        covariance, and for data that are too large or on a device.
        """
        if self.params["covariance"] is not None:
            raise ValueError(
                f"Permuting needs the samples, and {format_param('covariance', 'precomputed')} has none; give the data."
            )
        if self.container.storage_description:
            return self._subsample_for_permutation().prepare_for_permutation()
        if not self.container.is_sparse:
            filled = self.fill_missing(0).require_finite()
            if filled.X is self.X or not isinstance(self.covariates, Covariates):
                return filled
            return replace(filled, X=self.covariates.predict_missing(self.X, bool(self.params["center"])))
        size = self.shape[0] * self.shape[1]
        if size > MAX_PERMUTED_ENTRIES:
            raise ValueError(
                f"Permuting needs a dense table; X is sparse, of {size:.2g} entries, more than "
                f"{MAX_PERMUTED_ENTRIES:.2g}: give fewer samples, or the variables of largest variance."
            )
        self.fill_missing(0).require_finite()
        return replace(self, X=self.X.toarray())

    def _subsample_for_permutation(self) -> EstimatorInput:
        """Return a random subset of the samples of a table in blocks, as many as can be permuted in memory.

        All samples are loaded if as many can be permuted, or if fewer than MIN_PERMUTED_SAMPLES could be, which raises
        ValueError if they do not fit; so does a table on a device. The samples are drawn with a fixed seed and keep
        their order.
        """
        (p, n), blocks = self.shape, self.block_matrix
        n_drawn = 0 if blocks is None else int(blocks.memory_limit / (BYTES_PER_PERMUTED_ENTRY * n))
        if blocks is None or not MIN_PERMUTED_SAMPLES <= n_drawn < p:
            return self.load_into_memory("Permuting needs the table in the memory of this machine")
        warn(
            f"X is {blocks.storage_description}: {n_drawn} of its {p} samples, drawn at random, are permuted, as "
            f"many as {format_param('memory_limit')} allows."
        )
        drawn = np.sort(np.random.default_rng(0).choice(p, n_drawn, replace=False))
        return self.select_samples(drawn)

    def _check_device_support(self) -> None:
        """Raise ValueError if a parameter is set that does not work for an array on a device."""
        supported = {"variance": "l2", "covariance": None, "missing": "error", "certify": False}
        odd = [format_param(name, self.params[name]) for name, value in supported.items() if self.params[name] != value]
        if odd:
            raise ValueError(f"{', '.join(odd)} works on the host only; pass X.get() or X.cpu().")

    def prepare(
        self, sample_weight: Any = None, fit_specs: Sequence[FitSpec] = (), *, reduce: bool | None = None
    ) -> PreparedData:
        """Build the operator of the data, centred and scaled as requested, and check its entries.

        Call `fill_missing` before: missing and infinite entries raise ValueError here, as do columns out of the range
        of the dtype, and required variables that are constant. Small data in float32, and data for a certificate, are
        prepared in float64, and small data in blocks are loaded; `input_dtype` of the result is that of X.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, not yet checked.
        fit_specs : sequence of FitSpec
            The fits that will use the operator, as returned by `build_fit_specs`.
        reduce : bool, optional
            Whether to replace tall data by their covariance; by default if the fits need no samples and the covariance
            costs less than the passes that they are expected to make.
        """
        precomputed = self.params["covariance"] == "precomputed"
        if self.shape[0] == 1 and self.params["center"] and not precomputed:
            raise ValueError(
                "n_samples=1: a single sample has no variance about its mean; give more, or "
                f"{format_param('center', False)}."
            )
        table, notes = self._validate_covariance(sample_weight) if precomputed else (self, self.preprocessing_notes)
        blocks, size = table.block_matrix, self.shape[0] * self.shape[1]
        if blocks is not None and blocks.fits_in_memory and size <= MAX_DIRECT_ENTRIES:
            table = table.load_into_memory("A small table is solved in memory")  # so that all containers agree
        table = table.to_float64() if table._is_small_array or self.params["certify"] else table
        weight = check_sample_weight(table._balance(sample_weight), self.shape[0], table.X.dtype)
        center, regression = bool(self.params["center"]), None
        with np.errstate(all="ignore"):  # entries that are not finite are named below
            if table.covariates is not None:
                regression = table.covariates.regress(table.container, weight, center)
            operator, moments = as_operator(
                table.X if regression is None else regression.residuals,
                center=center,
                scale=self.params["scale"],
                sample_weight=weight,
                covariance=precomputed,
                reduce_tall=self._should_reduce_to_covariance(fit_specs) if reduce is None else reduce,
                double_sums=self.params["solver"].accumulate_dtype == "float64",
            )
        check_finite(table.X, self.feature_names, moments.column_norms, storage_name=self.storage_name)
        check_range(moments.column_norms, self.feature_names, self.X.dtype)
        check_required_variables(fit_specs, moments.column_norms, self.feature_names)

        return PreparedData(
            operator,
            moments,
            tuple(fit_specs),
            feature_names=self.feature_names,
            preprocessing_notes=notes,
            input_dtype=self.X.dtype,
            covariates=regression,
            is_standardized=bool(self.params["scale"]),
        )

    def _balance(self, sample_weight: Any) -> Any:
        """Return the sample weights, adjusted so that batches have equal weight if the parameter `balance` is set.

        `sample_weight` is what the user gave, which is returned unchanged without `balance`; otherwise it is checked,
        and the result is (n_samples,) in float64 on the host. Raise ValueError without batches.
        """
        if not self.params["balance"]:
            return sample_weight
        if self.params["covariance"] is not None:
            raise ValueError(
                f"{format_param('balance', True)} weights batches of samples; a covariance has no samples."
            )
        batch = getattr(self.covariates, "batch", None)
        if batch is None:
            raise ValueError(f"{format_param('balance', True)} weights batches equally; pass their labels as batch=.")
        return balance_batches(batch, check_sample_weight(sample_weight, self.shape[0], np.dtype(np.float64)))

    @property
    def _is_small_array(self) -> bool:
        """Return whether the table is an array small enough to be copied to float64.

        In float64 more digits are left after deflation.
        """
        return isinstance(self.X, np.ndarray) and self.X.size <= MAX_UPCAST_ENTRIES

    def _validate_covariance(self, sample_weight: Any) -> tuple[EstimatorInput, tuple[str, ...]]:
        """Return the input and notes on its changes, one sentence each; raise ValueError unless it is a covariance.

        The matrix must be dense, in host memory, finite, square, symmetric and positive semidefinite, and there must be
        no sample weights. X is not changed: the result has X itself or, if negligible negative eigenvalues were set to
        zero, a copy in its dtype.
        """
        stored = self.container.is_sparse or bool(self.container.storage_description)
        if stored or sample_weight is not None:
            what = "a dense matrix in memory" if stored else "no sample_weight"
            raise ValueError(f"{format_param('covariance', 'precomputed')} takes {what}.")
        S, notes = check_covariance(self.require_finite().X)
        return replace(self, X=S), notes

    def _should_reduce_to_covariance(self, fit_specs: Sequence[FitSpec]) -> bool:
        """Return whether the covariance suffices for the fits, and costs less than the passes that they will make.

        `fit_specs` are those of the fits that will use the operator. Without any the answer is no, unless the data are
        remote and have at most MAX_REMOTE_GRAM_VARIABLES variables. It is no if any fit needs the samples.
        """
        n = self.shape[1]
        n_passes = sum(spec.estimate_passes(n) for spec in fit_specs)
        is_cheap = n <= GRAM_COLUMNS_PER_PASS * n_passes
        is_cheap = is_cheap or (self.container.is_remote and n <= MAX_REMOTE_GRAM_VARIABLES)
        return is_cheap and not any(spec.needs_samples for spec in fit_specs)

    def accumulate_moments(
        self, earlier: RunningMoments | None, sample_weight: Any
    ) -> tuple[RunningMoments, PreparedData]:
        """Return the moments of this batch and the `earlier` ones, and the input of a fit to all their samples.

        The operator is a covariance without samples, in the dtype of the first batch. `earlier`, from a batch of the
        same variables, is not changed; None stands for no samples. `sample_weight` is what the user gave for this
        batch. Missing entries are not imputed. Raise ValueError if an entry is not finite, if the parameters need the
        samples, if there are more than MAX_STREAM_FEATURES variables, or if a required variable does not vary in all
        samples.
        """
        params, n = self.params, self.shape[1]
        has_points = not isinstance(params["solver"].init, str | None)
        if params["covariance"] is not None or params["variance"] != "l2" or has_points:
            raise ValueError(
                "partial_fit keeps no samples: it needs covariance=None, variance='l2' and init=None or 'largest_norm'."
            )
        if n > MAX_STREAM_FEATURES:
            raise ValueError(
                f"partial_fit keeps the covariance of all variables, and n_features={n} are more than "
                f"{MAX_STREAM_FEATURES}; fit a file or a Dask array instead, which are read in blocks."
            )
        weight = check_sample_weight(sample_weight, self.shape[0], self.X.dtype)
        with np.errstate(all="ignore"):  # values that are not finite are named below
            batch_moments = RunningMoments.from_batch(self.X, weight)
        check_finite(self.X, self.feature_names, np.diagonal(batch_moments.scatter), storage_name=self.storage_name)
        total = batch_moments if earlier is None else earlier.merge(batch_moments)
        center, scale = bool(params["center"]), bool(params["scale"])
        fit_spec = build_fit_spec(params, (n, n), self.feature_names)
        operator, moments = (total.to_float64() if params["certify"] else total).to_operator(center, scale)
        check_required_variables([fit_spec], moments.column_norms, self.feature_names)
        return total, PreparedData(
            operator, moments, (fit_spec,), feature_names=self.feature_names, input_dtype=total.dtype
        )

    def compute_moments_by_part(self, part: Array, count: int) -> list[RunningMoments]:
        """Compute the moments of each part of the samples in two passes; raise if an entry is not finite.

        `part`, (n_samples,) of int on the host, contains for each sample the index of its part, 0 to count − 1; no part
        is empty. Samples have no weights here. Encoded covariates follow the variables as further columns. Missing
        entries are imputed before if the parameters say so. The result has the moments of part i at index i.
        """
        data = (self.to_float64() if self._is_small_array else self).fill_missing().container
        with np.errstate(all="ignore"):  # values that are not finite are named below
            moments = compute_container_moments(data, True, False, None, PassCounter())
        check_finite(self.X, self.feature_names, moments.column_norms, storage_name=self.storage_name)
        check_range(moments.column_norms, self.feature_names, self.X.dtype)
        parts = compute_moments_by_part(data, moments, part, count)
        covariates = self.covariates.values if isinstance(self.covariates, Covariates) else None
        return parts if covariates is None else append_columns(parts, data, covariates, part)


def check_required_variables(fit_specs: Sequence[FitSpec], norms: Array, names: Array | None) -> None:
    """Raise if a required variable is constant; without specifications or rules, nothing is checked.

    `norms`, (n_features,), are the `column_norms` of the moments, on the host if there are rules. `names`,
    (n_features,), are those of the variables, or None. Only the first specification is read: those of a grid have the
    same rules. The error is a ValueError.
    """
    for rules in filter(None, (spec.sparsity.penalty_family.support_rules for spec in fit_specs[:1])):
        check_required_have_variance(rules, norms, names)


def read_estimator_input(estimator: BaseEstimator, X: Any, *, reset: bool = True) -> EstimatorInput:
    """Return the checked data of `fit` or, with ``reset=False``, of `transform`; set or check number and names.

    The entries are not yet checked for missing values. With `reset` the estimator gets `n_features_in_` and, if the
    data have names, `feature_names_in_`, all different. Otherwise both are compared, which raises ValueError; the
    estimator must be fitted. Parameters that it does not have are those of DATA_PARAM_DEFAULTS. Warn if the data look
    like a covariance or correlation matrix.
    """
    params = DATA_PARAM_DEFAULTS | resolve_solver(get_constructor_params(estimator))
    table = check_table(estimator, X, reset=reset, memory_limit=params["memory_limit"])
    names, row_names = vars(estimator).get("feature_names_in_"), getattr(X, "index", None)
    if reset and params["covariance"] is None and isinstance(table, np.ndarray) and table.shape[0] == table.shape[1]:
        kind = detect_matrix_kind(table, row_names is not None and names is not None and list(row_names) == list(names))
        if kind:
            warn(
                f"The table looks like a {kind} matrix; if it is, add {format_param('covariance', 'precomputed')}.",
                InputFormatWarning,
            )
    storage_name = table.storage_name if isinstance(table, Container) else ""
    return EstimatorInput(table, params, names, row_names=row_names, storage_name=storage_name)
