"""One competitor per file.

A competitor has a ``LABEL`` and ``prepare(X, problem, cardinality)``, which does everything that is not to be
timed and returns the call that is: ``() -> Answer``. `cardinality` is what the reference reached in all, for
competitors that have to be brought to it. Where one cannot run, it raises `CannotRun`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def solver(name: str) -> ModuleType:
    """The competitor in the file of that name."""
    return import_module(f"benchmarks.solvers.{name}")
