"""Constructors that keep what they are given: scikit-learn's convention, written once.

An estimator stores every argument of its constructor under the argument's own name and does nothing else with it. The
signature is the only list of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")


def keeps(init: Callable[P, None]) -> Callable[P, None]:
    """A constructor that stores its arguments as attributes.

    Examples
    --------
    >>> class Point:
    ...     @keeps
    ...     def __init__(self, x=0, *, y=1): ...
    >>> vars(Point(3))
    {'x': 3, 'y': 1}
    """
    signature = inspect.signature(init)

    @wraps(init)
    def keep(*args: P.args, **kwargs: P.kwargs) -> None:
        values = signature.bind(*args, **kwargs)
        values.apply_defaults()
        model, *_ = args
        vars(model).update({name: value for name, value in values.arguments.items() if name != "self"})

    return keep


def shares(other: type, names: Sequence[str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A constructor whose last argument, ``**shared``, stands for arguments of another class, with its defaults."""
    theirs = inspect.signature(other).parameters

    def with_shared(init: Callable[P, None]) -> Callable[P, None]:
        own = [p for p in inspect.signature(init).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        init.__signature__ = inspect.Signature([*own, *(theirs[name] for name in names)])  # type: ignore[attr-defined]
        return keeps(init)

    return with_shared
