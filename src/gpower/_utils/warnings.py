"""Warning classes, and the function that issues every warning of the package."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import joblib
import sklearn
from sklearn.exceptions import ConvergenceWarning

#: Folders of this package and of packages that call it; a warning points at the first caller outside of them.
_INTERNAL_PATH_PREFIXES = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent, Path(joblib.__file__).parent)
)
#: File in which scikit-learn fits to parts of the samples, in a search or a cross-validation.
_CROSS_VALIDATION_PATH = str(Path("sklearn", "model_selection", "_validation.py"))


class GPowerWarning(UserWarning):
    """Warning about a fit. Fits to parts of the samples in a cross-validation do not warn.

    Examples
    --------
    >>> import warnings
    >>> from gpower import GPowerWarning
    >>> warnings.simplefilter("ignore", GPowerWarning)  # doctest: +SKIP
    """


class NotConvergedWarning(GPowerWarning, ConvergenceWarning):
    """Warning about a computation that stopped early, or a component without variables."""


class InputFormatWarning(GPowerWarning):
    """Warning that the data may have been misread."""


class ScaleWarning(GPowerWarning):
    """Warning that the scale of a variable decides a component."""


#: Message and category of a warning.
WarningSpec = tuple[str, type[Warning]]
_WARNING_LISTENERS: ContextVar[tuple[list[str], ...]] = ContextVar("listeners", default=())


@contextmanager
def capture_warnings() -> Iterator[list[str]]:
    """Yield a list that collects the messages of all warnings issued inside, whether they are shown or not.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(), capture_warnings() as messages:
    ...     warnings.simplefilter("ignore")
    ...     warn("Three columns are missing.")
    >>> messages
    ['Three columns are missing.']
    """
    messages: list[str] = []
    token = _WARNING_LISTENERS.set((*_WARNING_LISTENERS.get(), messages))
    try:
        yield messages
    finally:
        _WARNING_LISTENERS.reset(token)


def warn(message: str, category: type[Warning] = GPowerWarning) -> None:
    """Issue a warning that points at the line outside this package that called it.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as records:
    ...     warnings.simplefilter("always")
    ...     warn("Three columns are missing.")
    >>> print(records[0].message)
    Three columns are missing.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL_PATH_PREFIXES):
        if frame.f_code.co_filename.endswith(_CROSS_VALIDATION_PATH):
            return
        level += 1
        frame = frame.f_back
    for messages in _WARNING_LISTENERS.get():
        messages.append(message)
    warnings.warn(message, category, stacklevel=level + 1)


def warn_all(messages: Iterable[WarningSpec]) -> None:
    """Issue warnings, given as pairs of message and class, in order; each points at the caller outside the package."""
    for message, category in messages:
        warn(message, category)
