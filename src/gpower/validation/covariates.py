"""Covariates and batches of the samples: their encoding as columns of numbers, whose effect a fit removes.

A column of numbers is used without change; categories and batches become one indicator per level. The encoded
covariates C have one column per column of numbers and per level. The fit is to the residuals of a regression of the
variables on C.

Terms: X, a `Container`, stores a matrix, (n_samples, n_features), neither centred nor scaled, or a covariance,
(n_features, n_features). Its `shape` and `dtype` (float32 or float64) are those of the matrix; ``to_dense()`` is the
matrix as an array, which may be the stored one and is never written to. A `ResidualMatrix` is the container of X − F B,
in the dtype of X. It is made from F, (n_samples, r), which may be in any dtype and must be orthonormal with respect to
the weights, FᵀWF = I; then its attribute `B`, (r, n_features), is FᵀWX. `F` and `B` of it are in the dtype of X and
where X is, host or device. `MIN_RESIDUAL_SHARE` maps a dtype to the share of a variance below which the rest is
rounding.

Weights w, (n_samples,), are `sample_weight` as `gpower.validation.checks.check_sample_weight` returns it: on the host,
in the dtype of X, finite, non-negative and not all zero; None stands for ones. Of `Moments`, `mean` and
`deviation_norms` (‖√w∘(x − mean)‖) are (n_features,), in float64, where X is; `total_weight` is Σw. `to_host` returns
an array as a NumPy array of the same dtype. ``find_column(selector, columns_by_name, n)`` returns the column number of
an integer from 0 to n − 1 or of a name, None if there is none; ``get_variable_name(j, names)`` returns the name of
variable j as text, x0, x1, … if `names` is None. "Text" is str; arrays "of text" have the dtype object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from gpower._utils.arrays import Array, to_host
from gpower._utils.messages import format_param
from gpower._utils.text import find_column, get_variable_name, is_missing_label, quote
from gpower.operators import Container, Moments
from gpower.operators.storage.covariate_residuals import MIN_RESIDUAL_SHARE, ResidualMatrix
from gpower.validation.checks import is_sequence

#: Singular value of the scaled covariates, relative to the largest or to one, below which a direction repeats others.
MIN_RELATIVE_SINGULAR_VALUE = 1e-9
#: Eigenvalue of the correlations of covariates, relative to the largest and by dtype, below which a direction repeats
#: the others. It is above the rounding of the correlations: what is divided by a smaller one is rounding too.
MIN_RELATIVE_EIGENVALUE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
#: Norm of a covariate about its mean, relative to its norm, up to which it is constant: sums in float64 round at 1e-16.
MAX_CONSTANT_SHARE = 1e-12
#: Rounding error of a mean, in units of the machine epsilon, up to which a fitted part is none.
FITTED_ROUNDING_IN_EPS = 16
#: Name of the batch labels among the encoded covariates.
BATCH_NAME = "batch"
#: A whole number as a float: batches 1 and 1.0 are the same, unlike v1 and v1.0.
WHOLE_NUMBER = re.compile(r"^([+-]?\d+)\.0\Z")
#: Covariates before they are encoded, by name: finite numbers in float64 or labels, as an array of dtype object whose
#: entries are str; (n_samples,), none of them missing.
CovariateColumns: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class CovariateEncoding:
    """The columns of the encoded covariates, as a fit found them. Columns of one covariate are next to each other.

    Attributes
    ----------
    names : ndarray of str of shape (c,)
        The covariate that each column encodes, of dtype object.
    levels : ndarray of str of shape (c,)
        The level that a column of zeros and ones indicates, of dtype object; "" for a column of numbers.
    """

    names: Array
    levels: Array

    @classmethod
    def from_columns(cls, columns: CovariateColumns) -> CovariateEncoding:
        """Return the encoding of covariates, in their order: one column per number, and one per level.

        Levels are sorted as str; one that no sample has is not known, so every column has a one. `columns` are at least
        one, as `read_covariates` returns them; no label is "".
        """
        pairs = [
            (name, level)
            for name, values in columns.items()
            for level in ([""] if _is_numeric(values) else sorted(set(values)))
        ]
        names, levels = zip(*pairs, strict=True)
        return cls(np.array(names, object), np.array(levels, object))

    def encode(self, columns: CovariateColumns) -> Array:
        """Return the encoded covariates, (n_samples, c), in float64 on the host, not centred, in the order of `names`.

        `columns` come from `read_covariates`, in any order, and may be of other samples than those of the fit. A level
        of the fit that none of these samples has is a column of zeros. Raise ValueError if a covariate is missing, is
        not one of the fit, or is of another type, or if it has a level that the fit did not see.
        """
        unknown = [name for name in columns if name not in self.names]
        lacking = [name for name in dict.fromkeys(self.names) if name not in columns]
        if unknown or lacking:
            problem = f"lack {lacking[0]!r}" if lacking else f"contain {unknown[0]!r}, which the fit did not have"
            raise ValueError(
                f"The covariates {problem}; pass those of the fit: {', '.join(dict.fromkeys(self.names))}."
            )
        for name, values in columns.items():
            self._check_levels(name, values)
        encoded = [
            columns[name] if level == "" else columns[name] == level
            for name, level in zip(self.names, self.levels, strict=True)
        ]
        return np.column_stack(encoded).astype(np.float64)

    def _check_levels(self, name: str, values: Array) -> None:
        """Raise ValueError unless the covariate of this name was fitted with this type and with all these levels.

        There must be a covariate of this name. It had numbers if its only level is "".
        """
        levels = set(self.levels[self.names == name])
        if _is_numeric(values) != (levels == {""}):
            expected = "numbers" if levels == {""} else "categories"
            raise ValueError(f"The covariate {name!r} had {expected} in the fit, and has others here.")
        new = [] if _is_numeric(values) else sorted(set(values) - levels)
        if new:
            raise ValueError(
                f"The covariate {name!r} has the level {new[0]!r}, which the fit did not see; its levels were "
                f"{', '.join(sorted(levels))}. Nothing can be removed for it: fit again with samples of that level."
            )


def _is_numeric(values: Array) -> bool:
    """Return whether a covariate of `CovariateColumns` consists of numbers, by the dtype of its values."""
    return values.dtype.kind == "f"


@dataclass(frozen=True, eq=False)
class Covariates:
    """The encoded covariates of all samples.

    Attributes
    ----------
    encoding : CovariateEncoding
        Names and levels of the c columns.
    values : ndarray of shape (n_samples, c)
        The encoded covariates in float64, finite, on the host, not centred.
    batch : ndarray of str of shape (n_samples,) or None
        The batch of each sample, of dtype object.
    """

    encoding: CovariateEncoding
    values: Array
    batch: Array | None = None

    def select_samples(self, idx: Array) -> Covariates:
        """Return the covariates of the samples `idx`, (q,) of int, in that order, as a copy.

        All columns stay, also those of levels that none of these samples has, which are then zero.
        """
        return Covariates(self.encoding, self.values[idx], None if self.batch is None else self.batch[idx])

    def check_levels(self, train: Array, test: Array) -> None:
        """Raise ValueError if samples to be held out have a level that none of the training samples has.

        `train` and `test` are the indices of the samples, each (q,) of int on the host. Columns of numbers are not
        checked. The error names the first such level in the order of the columns.
        """
        is_new = (self.encoding.levels != "") & self.values[test].any(axis=0) & ~self.values[train].any(axis=0)
        for j in np.flatnonzero(is_new)[:1]:
            raise ValueError(
                f"The covariate {self.encoding.names[j]!r} has the level {self.encoding.levels[j]!r} only in held-out "
                "samples of a fold, so that nothing can be removed for it. Pass folds whose training samples have all "
                "levels, as those of scikit-learn's StratifiedKFold, or leave out rare levels."
            )

    def predict_missing(self, X: Array, center: bool) -> Array:
        """Return a copy of X, (n_samples, n_features), whose NaN are the predictions from the observed samples.

        X is a NumPy array in float32 or float64 without infinite entries; the copy has its dtype. Each variable with
        NaN is regressed on the covariates of its observed samples, of which there must be one, by least squares with
        equal weights; if several fit equally well, by the coefficients of smallest norm. With `center` the
        regression has an intercept. Observed entries stay.
        """
        design = np.column_stack([np.ones(len(X)), self.values]) if center else self.values
        filled = X.copy()
        for j in np.flatnonzero(np.isnan(X).any(axis=0)):
            is_missing = np.isnan(X[:, j])
            coef = np.linalg.lstsq(design[~is_missing], X[~is_missing, j], rcond=None)[0]
            filled[is_missing, j] = design[is_missing] @ coef
        return filled

    def regress(self, X: Container, sample_weight: Array | None, center: bool) -> CovariateRegression:
        """Return the weighted least-squares regression of all variables on the covariates, in one pass over X.

        X contains the data, in memory, on a device or in blocks. With `center` the covariates are centred about their
        weighted means, which is a regression with an intercept. `sample_weight` is as in the module docstring. Raise
        ValueError if the covariates predict all samples exactly: if their rank is at least the number of samples of
        positive weight, less one with `center`.

        Let D be the covariates less their means, each divided by its weighted norm. A covariate whose norm about its
        mean is at most MAX_CONSTANT_SHARE of its whole norm is constant: its column of D is zero and its coefficients
        are zero. Singular vectors of √W·D whose singular value is at most MIN_RELATIVE_SINGULAR_VALUE times the largest
        (or times one, if that is larger) are left out. So of all coefficients that fit equally well, those are returned
        whose norm is smallest after each is multiplied by the norm of its covariate. The rank r is the number of
        vectors that are left; zero is valid, and leaves X as it is. They give the F of a `ResidualMatrix` in float64 on
        the host, which with `center` is centred once more, so that FᵀW1 is zero to rounding.

        `coef` and `fitted_squares` of the result are in float64 on the host, `basis` is the `F` of the residuals.
        """
        w = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, np.float64)
        mean = w @ self.values / w.sum() if center else np.zeros(self.values.shape[1])
        D = np.sqrt(w)[:, None] * (self.values - mean)
        norms = np.sqrt(np.sum(D**2, axis=0))
        whole = np.sqrt(w @ self.values**2)
        scale = np.where(norms > MAX_CONSTANT_SHARE * whole, norms, np.inf)  # constant columns predict nothing
        _, s, Vt = np.linalg.svd(D / scale, full_matrices=False)
        rank = int(np.sum(s > MIN_RELATIVE_SINGULAR_VALUE * max(s[0], 1.0)))
        if rank >= np.count_nonzero(w) - int(center):
            raise ValueError(
                f"The covariates have {rank} independent columns and there are {np.count_nonzero(w)} samples: they "
                "predict every variable exactly. Pass fewer covariates, or categories with fewer levels."
            )
        back = Vt[:rank].T / s[:rank] / scale[:, None]  # (c, rank): C − mean times this is orthonormal
        basis = (self.values - mean) @ back
        if center:  # the means of large covariates, such as dates, leave a rest that constant variables would show
            basis -= w @ basis / w.sum()
        residuals = ResidualMatrix(X, basis, sample_weight=sample_weight)
        B = to_host(residuals.B).astype(np.float64)
        return CovariateRegression(self.encoding, mean, back @ B, np.sum(B**2, axis=0), residuals, rank, residuals.F)


@dataclass(frozen=True, eq=False)
class CovariateRegression:
    """Least-squares regression of the variables on covariates.

    Attributes
    ----------
    encoding : CovariateEncoding
        Names and levels of the c columns of the encoded covariates C.
    mean : ndarray of shape (c,)
        Weighted means of the encoded covariates, in float64 on the host; zeros without centring and for a covariance.
    coef : ndarray of shape (c, n_features)
        Coefficients, on the host, in float64, or in the dtype of a covariance: a variable is its mean plus
        ``(C − mean) @ coef`` plus its residual. Of collinear covariates those whose norm is smallest after each is
        multiplied by the deviation of its covariate; a constant covariate has zeros.
    fitted_squares : ndarray of shape (n_features,)
        Weighted sum of squares of the fitted part of every variable, on the host, in the dtype of `coef`.
    residuals : ResidualMatrix or ndarray
        The part of the matrix that the covariates do not predict, in its dtype; if the covariates are centred, with the
        means of the matrix. Of a covariance its Schur complement.
    rank : int
        Number of independent covariates, r; may be zero.
    basis : ndarray of shape (n_samples, r) or None
        Centred covariates whose columns are orthonormal with respect to the sample weights, in the dtype of the matrix,
        where it is; None for a covariance.
    """

    encoding: CovariateEncoding
    mean: Array
    coef: Array
    fitted_squares: Array
    residuals: Any
    rank: int
    basis: Array | None = None

    def compute_variance_ratio(self, moments: Moments, standardized: bool) -> float:
        """Return the share of the variance that the covariates take, between 0 and 1, given moments of the residuals.

        `moments` are those of the residuals, unscaled norms included, with the weights of the regression. The variance
        is that of all variables together; if they are `standardized`, the result is the mean of the shares of those
        that vary. Constant variables, of which the covariates predict rounding errors, do not count; the result is zero
        if all are constant.
        """
        eps = float(np.finfo(self.residuals.dtype).eps)
        rounding = FITTED_ROUNDING_IN_EPS * eps * np.sqrt(moments.total_weight) * np.abs(to_host(moments.mean))
        fitted = np.where(self.fitted_squares > rounding**2, self.fitted_squares, 0)
        whole = fitted + to_host(moments.deviation_norms) ** 2
        varies = whole > 0
        if standardized and varies.any():
            return float(np.mean(fitted[varies] / whole[varies]))
        return float(fitted.sum() / whole.sum()) if varies.any() else 0.0


def balance_batches(batch: Array, sample_weight: Array | None) -> Array:
    """Return sample weights, (n_samples,) in float64, with which every batch has the same total weight.

    `batch`, (n_samples,) of str, are the labels. `sample_weight`, (n_samples,), are checked weights in float32 or
    float64, whose ratios within a batch are kept; None stands for ones. A batch whose weights are all zero keeps zeros,
    and the others share the sum less its share; otherwise the sum stays. The result is on the host.
    """
    weight = np.ones(len(batch)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    _, labels = np.unique(batch.astype(str), return_inverse=True)
    totals = np.bincount(labels, weight)
    return weight * (weight.sum() / (totals.size * np.where(totals > 0, totals, 1)))[labels]


def check_covariates_given(names: Array | None, covariates: Any, batch: Any, *, are_variables: bool = False) -> None:
    """Raise ValueError unless covariates are passed exactly if a model was fitted with covariates.

    `names`, (c,) of str, are those of the encoded covariates of the fit, a name once per column, or None for a fit
    without. `covariates` and `batch` are what the user gave; only whether they are None is read. Covariates that
    `are_variables` of a covariance are part of the data: they are not passed again.
    """
    is_given = covariates is not None or batch is not None
    if is_given and are_variables and names is not None:
        raise ValueError("The covariates are variables of the data here, and the model knows which; pass none.")
    if is_given and names is None:
        raise ValueError("The model was fitted without covariates and batches; it takes none here.")
    if names is not None and not is_given and not are_variables:
        raise ValueError(
            "The model was fitted to what covariates do not predict; pass those of the samples as covariates= or "
            f"batch=: {', '.join(dict.fromkeys(names))}."
        )


def read_covariates(covariates: Any, batch: Any, n_samples: int, row_names: Any = None) -> dict[str, Array]:
    """Return the covariates in their order, then the batches, as `CovariateColumns`.

    Batch labels become text, 1.0 that of 1. Raise ValueError unless there is a column, and each has a value for every
    sample.

    Parameters
    ----------
    covariates : frame, mapping, array-like of shape (n_samples,) or (n_samples, c), or None
        Numbers and categories; columns of an array are called covariate_1, covariate_2, ….
    batch : array-like of shape (n_samples,) or None
        Labels.
    n_samples : int
        Length that every column must have.
    row_names : index of a frame, optional
        Names of the samples of X. If the covariates have other ones, their order is doubtful, which is an error.
    """
    columns = list(_iter_columns(covariates)) if covariates is not None else []
    if batch is not None:
        labels = np.asarray(batch, dtype=object)
        words = [label if is_missing_label(label) else WHOLE_NUMBER.sub(r"\1", str(label)) for label in labels.ravel()]
        columns.append((BATCH_NAME, np.array(words, dtype=object).reshape(labels.shape)))
    _check_row_names(batch, row_names, "batch")
    for _, values in columns:
        _check_row_names(values, row_names, "covariates")
    names = [name for name, _ in columns]
    if not names:
        raise ValueError("covariates has no columns; give at least one, or None.")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"Two covariates are called {repeated!r}; rename one of them.")
    return {name: _read_column(name, values, n_samples) for name, values in columns}


def _iter_columns(covariates: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the columns of a frame, a mapping, a series or an array.

    The values of a column are as the user gave them, neither checked nor copied. Names are text, and may be repeated. A
    series has its own name; a column of an array is called covariate_1, covariate_2, …. Raise ValueError for an array
    that has neither one nor two dimensions.
    """
    if hasattr(covariates, "columns") or (hasattr(covariates, "keys") and not hasattr(covariates, "dtype")):
        yield from ((str(name), covariates[name]) for name in getattr(covariates, "columns", covariates))
        return
    array = np.asarray(covariates)
    if array.ndim == 1:
        yield str(getattr(covariates, "name", None) or "covariate_1"), covariates
    elif array.ndim == 2:
        yield from ((f"covariate_{j + 1}", array[:, j]) for j in range(array.shape[1]))
    else:
        raise ValueError(f"covariates has the shape {array.shape}; give a table of samples × covariates.")


def _check_row_names(values: Any, row_names: Any, what: str) -> None:
    """Raise ValueError if a series of values and the frame X have different names of their samples.

    `values` and `row_names` may be anything. Only objects with an `index` of the same length as `row_names` are
    compared, entry by entry; rows that are only numbered (a range of pandas), and lists, have no names. `what` is the
    argument that contained the values.
    """
    index: Any = getattr(values, "index", None)
    if any(names is None or callable(names) or hasattr(names, "step") for names in (index, row_names)):
        return  # not frames, or frames whose samples are only numbered
    if len(index) == len(row_names) and list(index) != list(row_names):
        place = next(i for i, pair in enumerate(zip(index, row_names, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"Row {place} is {index[place]!r} in {what} and {row_names[place]!r} in X; bring them into the same order, "
            f"as {what}.loc[X.index] does."
        )


def _read_column(name: str, values: Any, n_samples: int) -> Array:
    """Return a covariate as numbers or labels; raise ValueError for a wrong length or missing values.

    `values` is an array, a list or a column of a frame with one value per sample, on the host. It is numeric if all
    values are real numbers or booleans and the column of the frame is not a categorical one; infinity is refused.
    Numbers become float64, all else `str` of each value; NaN, None, blank text and words such as "NA" are missing.
    """
    is_categorical = str(getattr(values, "dtype", "")).lower().startswith(("categor", "enum"))
    array = np.asarray(values)
    if array.shape != (n_samples,):
        raise ValueError(f"The covariate {name!r} has the shape {array.shape}, but there are {n_samples} samples.")
    is_numeric = array.dtype.kind in "fiub" and not is_categorical
    array = array if is_numeric else np.asarray(values, dtype=object)
    missing = np.flatnonzero(array != array if is_numeric else [is_missing_label(value) for value in array])
    if missing.size:
        raise ValueError(
            f"The covariate {name!r} has {missing.size} missing value(s), first in row {missing[0]} (counted from 0), "
            f"{quote(str(array[missing[0]]))}; fill them, or leave those samples out (on the command line with "
            "--drop-rows)."
        )
    if is_categorical or not (is_numeric or all(isinstance(value, Real | np.bool_) for value in array)):
        return np.array([str(value) for value in array], dtype=object)
    numbers = array.astype(np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"The covariate {name!r} contains infinity; replace it.")
    return numbers


@dataclass(frozen=True, eq=False)
class CovariateVariables:
    """Variables of a covariance matrix that are covariates of the others.

    Attributes
    ----------
    names : ndarray of str of shape (c,)
        Their names, of dtype object.
    columns : ndarray of int of shape (c,)
        Their column numbers, from 0, in the order in which the user gave them; a repeated one counts as collinear.
    """

    names: Array
    columns: Array

    @classmethod
    def find(cls, selectors: Any, feature_names: Array | None, n_features: int) -> CovariateVariables:
        """Return the variables given by name or column number; raise ValueError if there is no such variable, or none.

        `selectors` is one name or number, or a list of them, as the user gave it. `feature_names`, (n_features,) of
        text, are different; without them variables are called x0, x1, …. A number that is no column is looked up as a
        name.
        """
        by_name = {get_variable_name(j, feature_names): j for j in range(n_features)}
        selectors = list(selectors) if is_sequence(selectors) else [selectors]
        columns = [find_column(selector, by_name, n_features) for selector in selectors]
        if not columns or None in columns:
            wrong = selectors[columns.index(None)] if columns else selectors
            raise ValueError(
                f"With {format_param('covariance', 'precomputed')}, covariates are variables of the matrix, by name or "
                f"column number; {wrong!r} is none of its {n_features} variables."
            )
        idx = np.array(columns, np.intp)
        return cls(np.array([get_variable_name(j, feature_names) for j in idx], dtype=object), idx)

    def regress(self, X: Container, sample_weight: Array | None, center: bool) -> CovariateRegression:
        """Return the regression of all variables of a covariance X on these; weights and `center` have no effect.

        X is a symmetric, positive semidefinite matrix, (n_features, n_features), in host memory. The residuals are its
        Schur complement, a new NumPy array, symmetric, in which the rows and columns of the covariates are zero, as are
        those of variables of which the share MIN_RESIDUAL_SHARE or less is left. Arrays of the result are on the host,
        in the dtype of X, but `mean` is float64. There is no basis.

        The coefficients solve the normal equations by a pseudo-inverse of the correlations of the covariates, which
        leaves out eigenvalues up to MIN_RELATIVE_EIGENVALUE of the largest: of collinear covariates, those coefficients
        whose norm is smallest after each is multiplied by the standard deviation of its covariate. Covariates of no
        variance have coefficients zero; the rank may be zero.
        """
        S, idx = X.to_dense(), self.columns
        deviation = np.sqrt(np.maximum(np.diagonal(S)[idx], 0))
        deviation = np.where(deviation > 0, deviation, 1.0)
        correlation = S[np.ix_(idx, idx)] / np.outer(deviation, deviation)
        inverse = np.linalg.pinv(correlation, rcond=MIN_RELATIVE_EIGENVALUE[S.dtype], hermitian=True)
        coef = inverse @ (S[idx] / deviation[:, None]) / deviation[:, None]
        rest = S - S[:, idx] @ coef
        rest = (rest + rest.T) / 2
        gone = np.diagonal(rest) <= MIN_RESIDUAL_SHARE[S.dtype] * np.diagonal(S)
        gone[idx] = True
        rest[gone] = 0
        rest[:, gone] = 0
        encoding = CovariateEncoding(self.names, np.full(idx.size, "", dtype=object))
        eigenvalues = np.linalg.eigvalsh(correlation)
        rank = int(np.count_nonzero(eigenvalues > MIN_RELATIVE_EIGENVALUE[S.dtype] * eigenvalues[-1]))
        return CovariateRegression(encoding, np.zeros(idx.size), coef, np.diagonal(S) - np.diagonal(rest), rest, rank)
