"""Tests of single values, and their conversion from NumPy to Python types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np


def is_number(value: object, kind: type) -> bool:
    """Return whether a value is a number of the given type; bool is rejected.

    Examples
    --------
    >>> from numbers import Integral
    >>> from gpower.validation.checks import is_number
    >>> is_number(3, Integral), is_number(True, Integral)
    (True, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is iterable and not a string.

    Examples
    --------
    >>> from gpower.validation.checks import is_sequence
    >>> is_sequence([3]), is_sequence("abc"), is_sequence(3)
    (True, False, False)
    """
    return isinstance(value, Iterable) and not isinstance(value, str)


def to_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python object, and any other value unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python
    >>> to_python(np.int64(3)), to_python("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def to_python_list(values: Iterable[Any]) -> list[Any]:
    """Return the entries of an iterable as a list, with NumPy scalars as Python objects.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python_list
    >>> to_python_list(np.arange(2))
    [0, 1]
    """
    return [to_python(value) for value in values]
