"""The scikit-learn estimator: validate → operator → extract → store, and no mathematics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from gpower._arrays import Array, is_device, to_host
from gpower.ascent import AscentState
from gpower.certificates import Certificate, certifiable, certify, certify_components
from gpower.checkpoints import Checkpoint
from gpower.devices import back_to
from gpower.extraction import Extraction, extract_components
from gpower.fitted import SparsePCAEstimator, checked_operator, fitted_attributes, jsonable, running_moments
from gpower.imputation import impute
from gpower.inputs import check_finite, check_table
from gpower.notices import log_fit, notices
from gpower.operators import BlockMatrix, Moments, Operator
from gpower.operators.running import RunningMoments
from gpower.parameters import one_of, recipe_from, whole
from gpower.recipes import Recipe

#: Forming the covariance of n variables takes the time of about n/GRAM_READS reads of the data.
GRAM_READS = 8
#: Data that are read in blocks are replaced by the covariance of up to this many variables whatever is asked of them.
MOST_GRAM = 4096


class GPower(SparsePCAEstimator):
    """Sparse principal components by the generalized power method.

    Each component is a unit vector of loadings with few non-zeros. Say how many with `cardinality`, or weigh
    sparsity against variance with `gamma`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    cardinality : int or sequence of int, optional
        Exactly that many non-zero loadings, for all components or one each. With ``penalty="l0"`` the
        constrained problem is solved; with ``penalty="l1"`` gamma is calibrated until that many are active.
    penalty : {"l0", "l1"}, default="l0"
        Penalty on the number of loadings, or on their absolute sum.
    gamma : float or sequence of float, optional
        Penalty as a fraction in [0, 1) of its largest useful value; default 0.01 (l0) or 0.1 (l1).
    method : {"deflation", "block"}, default="deflation"
        One component after the other, or all at once.
    mu : sequence of float, optional
        Weights of the units of a block, default all ones; decreasing ones order the components.
    variance : {"l2", "l1"}, default="l2"
        Maximise ‖Az‖₂, or ‖Az‖₁, which outlying samples sway less.
    positive : bool, default=False
        Non-negative loadings; a component then has at most `cardinality` of them.
    covariance : {None, "precomputed"}
        X is a covariance or correlation matrix; nothing is centred or divided.
    center, scale : bool, default=True, False
        Subtract means; divide by standard deviations. Never changes or copies X.
    n_init : int or "auto", default="auto"
        Number of starts, the best objective kept; "auto" takes many for a cardinality and one for gamma.
    init : {None, "paper"} or ndarray of shape (n_samples, n_components)
        Start at promising columns, as the paper does, or where you say.
    solver : {"auto", "rounds", "direct"}, default="auto"
        Rounds on a working set of columns, or the ascent on the whole matrix, which small problems get.
    refit : {"auto", "norms", "variance", None}, default="auto"
        How the loadings of the pattern found are filled in. One unit: rank-one SVD. Block: the paper's
        sum of norms, the sum of squares, or the better of both by adjusted variance. None: as read off.
    polish : bool, default=True
        Exchange variables while that helps; single units with exact cardinality.
    deflation : {"projection", "orthogonalized", "schur"}, default="projection"
        How a component is removed before the next: the paper's rule, or one for correlated components.
    l1_bound : float or sequence of float, optional
        s ≥ 1 of the constraint ‖z‖₁ ≤ √s, instead of a penalty.
    regularization : float, default=0.0
        ω of the strongly convex block objective.
    acceleration : bool, default=True
        Momentum with monotone restart.
    tol : float, default=1e-6
        Stop when the objective grows by no more than this, relatively.
    max_iter : int, default=1000
        Most steps of an ascent.
    certify : bool, default=False
        Also prove how far each component is from the best possible: `upper_bound_` and `optimality_ratio_`. Takes up to
        ten seconds for each; see `gpower.certify`.
    missing : {"error", "impute"}, default="error"
        What NaN entries do: they are refused, or filled by a model of means and `n_components` ordinary components,
        fitted to the observed entries. `transform` then fills by the sparse components.
    accumulation : {None, "float64"}, default=None
        Type in which products with float32 data are summed, on the processor or on a GPU: that of the data, or
        float64, whose sums over very many samples keep all digits of the data but take several times as long. Means,
        norms and sums over blocks of data on disk or on a cluster are made in float64 anyway.
    memory_limit : int or str, optional
        Bytes, or words such as "2GB", that a fit to data on disk may take; by default a quarter of the free memory.
    checkpoint : str or path, optional
        File to keep the components found so far in, for fits one component at a time.
    resume : bool, default=False
        Go on from the checkpoint, if there is one, of the same data and parameters.
    random_state : int, RandomState or None
        Of random starts and ties. None stands for a fixed seed: results repeat.
    verbose : int, default=0
        Log what is found to the "gpower" logger.
    callback : callable, optional
        Called with the state of the ascent after each step; a true answer stops that ascent.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit loadings, the largest of each positive.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Adjusted variance: of each component the part that the others of larger variance leave.
    cardinality_ : ndarray of int
        Number of non-zero loadings.
    gamma_ : ndarray
        Absolute γ per component; NaN where there is none.
    objective_, optimality_gap_, n_iter_, converged_ : ndarray
        The paper's f at the end of each ascent, the first-order measure Δ there, its steps, and whether the
        stopping rule was met; one entry per component, a single one for a block.
    n_passes_ : float
        Reads of the matrix.
    upper_bound_, optimality_ratio_ : ndarray of shape (n_components,)
        With ``certify=True``: what no component of as many variables can exceed, in the units of ‖A z‖² as `objective_`
        of an exact cardinality, on the matrix less the components before; and the share of it that was found.
    mean_, scale_ : ndarray of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X has names.

    References
    ----------
    [JNRS10] Journée, Nesterov, Richtárik, Sepulchre (2010). Generalized power method for sparse principal
    component analysis. Journal of Machine Learning Research 11, 517–553.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower import GPower
    >>> rng = np.random.default_rng(0)
    >>> factor = rng.standard_normal((50, 1))
    >>> X = rng.standard_normal((50, 8))
    >>> X[:, [1, 4, 6]] += 3 * factor
    >>> model = GPower(n_components=1, cardinality=3).fit(X)
    >>> np.flatnonzero(model.components_[0])
    array([1, 4, 6])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        cardinality: Any = None,
        penalty: str = "l0",
        gamma: Any = None,
        method: str = "deflation",
        mu: Any = None,
        variance: str = "l2",
        positive: bool = False,
        covariance: str | None = None,
        center: bool = True,
        scale: bool = False,
        n_init: int | str = "auto",
        init: Any = None,
        solver: str = "auto",
        refit: str | None = "auto",
        polish: bool = True,
        deflation: str = "projection",
        l1_bound: Any = None,
        regularization: float = 0.0,
        acceleration: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        certify: bool = False,
        missing: str = "error",
        accumulation: str | None = None,
        memory_limit: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[[AscentState], Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.cardinality = cardinality
        self.penalty = penalty
        self.gamma = gamma
        self.method = method
        self.mu = mu
        self.variance = variance
        self.positive = positive
        self.covariance = covariance
        self.center = center
        self.scale = scale
        self.n_init = n_init
        self.init = init
        self.solver = solver
        self.refit = refit
        self.polish = polish
        self.deflation = deflation
        self.l1_bound = l1_bound
        self.regularization = regularization
        self.acceleration = acceleration
        self.tol = tol
        self.max_iter = max_iter
        self.certify = certify
        self.missing = missing
        self.accumulation = accumulation
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples × variables, or a covariance with ``covariance="precomputed"``. Never changed. Also a store that is
            read in blocks: np.memmap, zarr array, HDF5 dataset, backed AnnData matrix, path of one (.npy, .zarr, .h5,
            .h5ad, .parquet), or a Dask array. An array of PyTorch or CuPy stays on its device, and `components_`,
            `mean_`, `scale_` and scores are of its kind.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; a weight of two counts a sample twice.

        Returns
        -------
        self
        """
        back = back_to(X)
        X = self._without_holes(check_table(self, X, reset=True))
        recipe = recipe_from(dict(vars(self)), X.shape)
        operator, moments = self._operator(X, sample_weight, recipe.reads())
        self._stream: RunningMoments | None = None
        self._extracted(operator, moments, recipe)
        if self.certify:
            self._certified(certify(self, X, sample_weight=sample_weight) if moments.norms.any() else ())
        return self._given_back(back)

    def _given_back(self, back: Callable[[Any], Any]) -> Self:
        """The fitted arrays of the length of a sample as arrays of the kind that came in."""
        for name in ("components_", "mean_", "scale_"):
            setattr(self, name, back(getattr(self, name)))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of samples and find the components of all samples so far.

        Means and covariance are kept, not the samples: every sample is seen once. The answer is that of `fit` to all
        of them. Calling `fit` begins anew.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The batch. At most 10,000 variables.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from gpower import GPower
        >>> X = np.random.default_rng(0).standard_normal((60, 5))
        >>> model = GPower(1, cardinality=2)
        >>> for batch in np.split(X, 3):
        ...     model = model.partial_fit(batch)
        >>> bool(np.allclose(model.components_, GPower(1, cardinality=2).fit(X).components_))
        True
        """
        running = getattr(self, "_stream", None)
        X = check_table(self, X, reset=running is None)
        self._stream = batch = running_moments(self, X, sample_weight)
        if running is not None:
            self._stream = batch = running.merged(batch)
        recipe = recipe_from(dict(vars(self)), (X.shape[1], X.shape[1]))
        operator, moments = batch.operator(bool(self.center), bool(self.scale))
        self._extracted(operator, moments, recipe)
        if self.certify:
            self._certified(certify_components(operator.in_double(), self.components_.T, **certifiable(self)))
        return self

    def _extracted(self, operator: Operator, moments: Moments, recipe: Recipe) -> Self:
        """Find, store and tell, keeping what is found in the checkpoint, if there is one."""
        rng, known, completed = self._rng(), [], None
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True goes on from a checkpoint; give checkpoint=, the file it is kept in.")
        if self.checkpoint is not None:
            if recipe.block:
                raise ValueError(
                    'checkpoint keeps components that are found one after the other; method="block" finds all at once.'
                )
            idle = ("callback", "verbose", "checkpoint", "resume", "memory_limit")
            params = {name: value for name, value in self.get_params().items() if name not in idle}
            kept = Checkpoint.of(self.checkpoint, moments, operator.shape, jsonable(params))
            known = kept.load(rng) if self.resume else []
            completed = partial(kept.save, rng=rng)
        found = extract_components(operator, recipe, rng, known, completed)
        own_variance = self._store(operator, moments, found)
        self._tell(own_variance, moments, found)
        return self

    def _certified(self, proofs: Sequence[Certificate]) -> Self:
        """Keep what was proven of every component, on what the earlier ones leave."""
        count = len(self.components_)  # data that do not vary leave nothing to prove
        self.upper_bound_ = np.array([proof.upper_bound for proof in proofs] or [0.0] * count)
        self.optimality_ratio_ = np.array([proof.ratio for proof in proofs] or [1.0] * count)
        return self

    def _without_holes(self, X: Any) -> Any:
        """X, with missing entries filled if that was asked for."""
        if is_device(X):
            self._check_device()
        if self.certify and isinstance(X, BlockMatrix):
            raise ValueError(
                "A certificate needs the matrix in the memory of this machine; X is in blocks, on disk or on a cluster."
            )
        if one_of(self.missing, "missing", ("error", "impute")) == "error":
            return X
        if sp.issparse(X) or isinstance(X, BlockMatrix) or self.covariance is not None:
            what = "a sparse matrix, whose absent entries are zeros" if sp.issparse(X) else "a covariance"
            what = "in blocks, on disk or on a cluster" if isinstance(X, BlockMatrix) else what
            raise ValueError(f'missing="impute" fills the holes of a dense table of samples; X is {what}.')
        check_finite(X, getattr(self, "feature_names_in_", None), allow_nan=True)
        if not np.isnan(np.sum(X)):
            return X
        rank = whole(self.n_components, "n_components", 1)
        return impute(X, rank, center=bool(self.center), scale=bool(self.scale)).X

    def _check_device(self) -> None:
        """Refuse what is not done on a device."""
        ordinary = {"variance": "l2", "covariance": None, "missing": "error", "certify": False}
        odd = [f"{name}={getattr(self, name)!r}" for name, value in ordinary.items() if getattr(self, name) != value]
        if odd:
            raise ValueError(f"{', '.join(odd)} works on the host only; pass X.get() or X.cpu().")

    def _operator(self, X: Any, sample_weight: Any, reads: int) -> tuple[Operator, Moments]:
        """X as an operator; tall data as their covariance, where the expected reads pay for it."""
        few = X.shape[1] <= GRAM_READS * reads or (isinstance(X, BlockMatrix) and X.shape[1] <= MOST_GRAM)
        reduce = self.variance == "l2" and isinstance(self.init, str | None) and few
        return checked_operator(self, X, sample_weight, reduce=reduce)

    def _rng(self) -> np.random.RandomState:
        """The generator of random starts; None stands for a fixed seed."""
        return np.random.RandomState(0) if self.random_state is None else check_random_state(self.random_state)

    def _store(self, operator: Operator, moments: Moments, found: Extraction) -> Array:
        """Set the fitted attributes, in the units of the user; the variance of each component on its own."""
        attributes, own_variance = fitted_attributes(operator, moments, found)
        self.__dict__.update(attributes)
        return own_variance

    def _tell(self, own_variance: Array, moments: Moments, found: Extraction) -> None:
        """Warn, and log if asked to."""
        if self.verbose:
            log_fit(self)
        for message, category in notices(self, to_host(np.flatnonzero(moments.norms == 0)), own_variance):
            warnings.warn(message, category, stacklevel=3)
        for note in found.notes:
            warnings.warn(note, UserWarning, stacklevel=3)
