"""The solvers, one per file.

A solver has a ``LABEL`` and ``prepare(X, problem, cardinality)``, which does everything that is not timed and returns
the call that is timed: ``() -> Answer``. `cardinality` is the total cardinality of the reference, for solvers that have
to reach the same one. If a solver cannot solve a problem, it raises `CannotRun`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def solver(name: str) -> ModuleType:
    """Return the solver in the file of that name."""
    return import_module(f"benchmarks.solvers.{name}")
