"""Time given, and whether the user wants to stop: what every long computation here asks before it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds between two questions to the user's callback inside a long step.
PATIENCE = 0.25


class Clock:
    """Seconds since the start, against a limit.

    Parameters
    ----------
    limit : float
        Seconds after which `expired` is true.
    ask : callable, optional
        The user's word, asked now and then; a true answer stops.

    Examples
    --------
    >>> Clock(0.0).expired, Clock(60.0).expired
    (True, False)
    """

    def __init__(self, limit: float, ask: Callable[[], Any] | None = None) -> None:
        self.begin, self.limit, self.ask, self.stopped = time.perf_counter(), limit, ask, False
        self.asked = self.begin
        self.outer: Clock | None = None

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.begin

    @property
    def expired(self) -> bool:
        """Whether to stop now."""
        if time.perf_counter() - self.asked > PATIENCE:
            self.report()
        return self.stopped or self.elapsed >= self.limit

    def report(self) -> None:
        """Ask the user now."""
        self.asked = time.perf_counter()
        if self.ask is not None and self.ask():
            self.stop()

    def stop(self) -> None:
        """Expire now, and every clock that this one is a part of."""
        self.stopped = True
        if self.outer is not None:
            self.outer.stop()

    def part(self, limit: float, *, quiet: bool = False) -> Clock:
        """A clock that expires after `limit` seconds, or when this one does; a quiet one asks nobody."""
        inner = Clock(max(0.0, min(limit, self.limit - self.elapsed)), None if quiet else self.ask)
        inner.stopped, inner.outer, inner.asked = self.stopped, self, self.asked
        return inner

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C inside ends the block, not the program: what was proven until then is returned."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop()
