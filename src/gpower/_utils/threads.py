"""Threads for work that releases the interpreter lock, such as products of SciPy's sparse matrices.

The number of threads is that of NumPy's BLAS, so that whatever limits BLAS applies here as well: OMP_NUM_THREADS,
OPENBLAS_NUM_THREADS and MKL_NUM_THREADS, `threadpoolctl.threadpool_limits`, and the limits that joblib and Dask set in
their worker processes. Results must not depend on the number of threads: callers divide their work by the data alone
and add partial results in the order of the parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import joblib  # joblib and threadpoolctl are requirements of scikit-learn
import numpy as np
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

#: Entries of a table up to which BLAS threads do not accelerate many fits, or the rounds of one. On two cores a
#: permutation test of 158 × 8659 takes half of the time in one thread, and one of 158 × 2000 a sixth to a ninth if
#: other programs run. A fit of 30 components of 100 variables to 158 × 8659 takes 1.5 instead of 4.3 s.
MAX_SMALL_ENTRIES = 4_000_000

_is_limited: ContextVar[bool] = ContextVar("_is_limited", default=False)


@lru_cache(maxsize=1)
def _find_blas_libraries() -> ThreadpoolController:
    """Return the BLAS libraries of this process, found once because the search takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


def get_thread_count() -> int:
    """Return the number of threads that the caller may use: that of BLAS, at most one per processor.

    It is one inside `use_one_thread`, and so in the threads of `map_in_threads`.

    Examples
    --------
    >>> import threadpoolctl
    >>> from gpower._utils.threads import get_thread_count
    >>> with threadpoolctl.threadpool_limits(1):
    ...     get_thread_count()
    1
    """
    if _is_limited.get():
        return 1
    limits = [library.get_num_threads() for library in _find_blas_libraries().lib_controllers]
    return max(1, min([joblib.cpu_count(), *limits]))


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Let the code inside start no threads, because other threads do the same work at the same time."""
    token = _is_limited.set(True)
    try:
        yield
    finally:
        _is_limited.reset(token)


class _BlasLimit:
    """A limit of one BLAS thread in the whole process, while at least one thread is inside the context.

    Limits of threads that overlap would otherwise end by restoring the limit of another one.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limiter = _find_blas_libraries().limit(limits=1)
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limiter.restore_original_limits()


_blas_limit = _BlasLimit()


def limit_small_products(n_entries: int) -> AbstractContextManager[None]:
    """Return a context in which BLAS and `map_in_threads` use one thread, for many products of `n_entries` entries.

    There is no effect for more than MAX_SMALL_ENTRIES, because threads accelerate larger products.
    """
    return _blas_limit if n_entries <= MAX_SMALL_ENTRIES else nullcontext()


def map_in_threads(function: Callable[[T], R], items: Sequence[T], *, limit_blas: bool = False) -> Iterator[R]:
    """Yield ``function(item)`` for every item, in order, computed by as many threads as `get_thread_count` allows.

    No more results than threads wait to be used, which limits the memory of results that are added up. The threads
    inherit the context of the caller, such as that of `numpy.errstate`. With `limit_blas`, BLAS uses one thread in the
    whole process while there are several threads: set it if `function` multiplies dense arrays.
    """
    n_threads = min(get_thread_count(), len(items))
    if n_threads <= 1:
        yield from map(function, items)
        return

    floating_point_settings = np.geterr()  # before NumPy 2 they are not part of the context

    def call(item: T) -> R:
        with use_one_thread(), np.errstate(**floating_point_settings):
            return function(item)

    pending: deque[Future[R]] = deque()
    with _blas_limit if limit_blas else nullcontext(), ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            pending.append(pool.submit(copy_context().run, call, item))
            if len(pending) > n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
