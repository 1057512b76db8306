"""Names of parameters in messages: Python arguments by default, flags when the command line runs the library."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Formats a parameter's name alone, or its name and value.
ParamFormatter = Callable[..., str]


def _format_as_argument(name: str, *value: object) -> str:
    """Format a parameter as a Python argument; abbreviate values that are neither numbers, strings nor lists."""
    if not value:
        return name
    is_short = isinstance(value[0], str | int | float | list | tuple)
    return f"{name}={repr(value[0]) if is_short else reprlib.repr(value[0])}"


_PARAM_FORMATTER: ContextVar[ParamFormatter] = ContextVar("param_formatter", default=_format_as_argument)


def format_param(name: str, *value: object) -> str:
    """Format a parameter, or a parameter and its value, as the user of the message types it.

    Examples
    --------
    >>> from gpower._utils.messages import format_param
    >>> format_param("cardinality", [10, 5]), format_param("method", "block"), format_param("memory_limit")
    ('cardinality=[10, 5]', "method='block'", 'memory_limit')
    """
    return _PARAM_FORMATTER.get()(name, *value)


@contextmanager
def use_param_formatter(formatter: ParamFormatter) -> Iterator[None]:
    """Format the parameters of all messages made inside with `formatter`.

    Examples
    --------
    >>> from gpower._utils.messages import format_param, use_param_formatter
    >>> with use_param_formatter(lambda name, *value: f"--{name}"):
    ...     format_param("certify", True)
    '--certify'
    """
    token = _PARAM_FORMATTER.set(formatter)
    try:
        yield
    finally:
        _PARAM_FORMATTER.reset(token)
