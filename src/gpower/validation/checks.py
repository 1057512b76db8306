"""What somebody gives as a value: whether it is a number or a list, and as Python's own type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np


def is_a(value: object, kind: type) -> bool:
    """Whether a value is a number of a kind; a truth value is none.

    Examples
    --------
    >>> from numbers import Integral
    >>> from gpower.validation.checks import is_a
    >>> is_a(3, Integral), is_a(True, Integral)
    (True, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool)


def is_listed(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value has entries; a word has none.

    Examples
    --------
    >>> from gpower.validation.checks import is_listed
    >>> is_listed([3]), is_listed("abc"), is_listed(3)
    (True, False, False)
    """
    return isinstance(value, Iterable) and not isinstance(value, str)


def unboxed(value: Any) -> Any:
    """A number or a word of NumPy's as Python's own; anything else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import unboxed
    >>> unboxed(np.int64(3)), unboxed("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def unboxed_list(values: Iterable[Any]) -> list[Any]:
    """The entries of a list, each as Python's own.

    Examples
    --------
    >>> import numpy as np
    >>> from gpower.validation.checks import unboxed_list
    >>> unboxed_list(np.arange(2))
    [0, 1]
    """
    return [unboxed(value) for value in values]
