"""What the user should hear: the classes of our warnings, and the one place that issues them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import joblib  # type: ignore[import-untyped]
import sklearn
from sklearn.exceptions import ConvergenceWarning

#: Code that stands between a person and a fit: ours, and that of packages that call it.
_INTERNAL_PATH_PREFIXES = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent, Path(joblib.__file__).parent)
)
#: Where scikit-learn fits to parts of the samples, in a search or a cross-validation.
_CROSS_VALIDATION_PATH = str(Path("sklearn", "model_selection", "_validation.py"))


class GPowerWarning(UserWarning):
    """Something to know about a fit. Fits to parts of the samples, in a cross-validation, are silent.

    Examples
    --------
    >>> import warnings
    >>> from gpower import GPowerWarning
    >>> warnings.simplefilter("ignore", GPowerWarning)  # doctest: +SKIP
    """


class NotConvergedWarning(GPowerWarning, ConvergenceWarning):
    """A computation that stopped early, or a component that found nothing."""


class InputFormatWarning(GPowerWarning):
    """The data look like something other than they were read as."""


WarningSpec = tuple[str, type[Warning]]
_WARNING_LISTENERS: ContextVar[tuple[list[str], ...]] = ContextVar("listeners", default=())


@contextmanager
def capture_warnings() -> Iterator[list[str]]:
    """What is warned of inside, a sentence each, whether it is shown or not.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(), capture_warnings() as said:
    ...     warnings.simplefilter("ignore")
    ...     warn("Three columns are missing.")
    >>> said
    ['Three columns are missing.']
    """
    said: list[str] = []
    before = _WARNING_LISTENERS.set((*_WARNING_LISTENERS.get(), said))
    try:
        yield said
    finally:
        _WARNING_LISTENERS.reset(before)


def warn(message: str, category: type[Warning] = GPowerWarning) -> None:
    """Warn, pointing at the line outside this package that asked for the work.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("Three columns are missing.")
    >>> print(caught[0].message)
    Three columns are missing.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL_PATH_PREFIXES):
        if frame.f_code.co_filename.endswith(_CROSS_VALIDATION_PATH):
            return
        level, frame = level + 1, frame.f_back
    for said in _WARNING_LISTENERS.get():
        said.append(message)
    warnings.warn(message, category, stacklevel=level + 1)


def warn_all(messages: Iterable[WarningSpec]) -> None:
    """Warn of one thing after the other."""
    for message, category in messages:
        warn(message, category)
