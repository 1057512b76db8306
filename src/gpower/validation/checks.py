"""What somebody gives as a value: whether it is a number or a list, and as Python's own type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np


def is_number(value: object, kind: type) -> bool:
    """Whether a value is a number of a kind; a truth value is none.

    Examples
    --------
    >>> from numbers import Integral
    >>> from gpower.validation.checks import is_number
    >>> is_number(3, Integral), is_number(True, Integral)
    (True, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value has entries; a word has none.

    Examples
    --------
    >>> from gpower.validation.checks import is_sequence
    >>> is_sequence([3]), is_sequence("abc"), is_sequence(3)
    (True, False, False)
    """
    return isinstance(value, Iterable) and not isinstance(value, str)


def to_python(value: Any) -> Any:
    """A number or a word of NumPy's as Python's own; anything else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python
    >>> to_python(np.int64(3)), to_python("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def to_python_list(values: Iterable[Any]) -> list[Any]:
    """The entries of a list, each as Python's own.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import to_python_list
    >>> to_python_list(np.arange(2))
    [0, 1]
    """
    return [to_python(value) for value in values]
