"""Clusters of Dask as they are: slow to answer, without workers, or gone. Each is told, none is waited for forever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future as Answer
from concurrent.futures import wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.optional import extra

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from distributed import Client

R = TypeVar("R")

#: Seconds to wait for a scheduler, and for a cluster without workers to have one; seconds between two looks at it.
TIMEOUT, WORKERLESS, BETWEEN_LOOKS = 10.0, 30.0, 1.0
#: What a cluster that is gone makes Dask raise, here by name so that Dask need not be imported.
_LOST = ("CommClosedError", "CancelledError", "FuturesCancelledError", "KilledWorker", "TimeoutError")


class ClusterError(OSError):
    """A cluster that is gone, or whose workers die at the same task again and again."""


def current_client() -> Client:
    """The user's client; None if there is none."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def connect(address: str, timeout: float | None = None) -> Client:
    """A client of the cluster at an address, which later fits use; seconds to wait for an answer."""
    distributed = extra("distributed", "dask", "A cluster needs dask and")
    try:
        return distributed.Client(address, timeout=TIMEOUT if timeout is None else timeout)
    except OSError as error:
        raise ClusterError(f"No Dask scheduler answers at {address} ({error}).") from None


def computed(scores: DaskArray) -> Array:
    """A Dask array as numbers, from the cluster if there is one; a lost one is named."""
    client = current_client()
    if client is None:
        return np.asarray(scores)
    with named(client):
        return np.asarray(patiently(client, scores.compute))


@contextmanager
def named(client: Client) -> Iterator[None]:
    """What is raised because the cluster is gone becomes our error; whatever Dask raises then, the client is closed."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ClusterError) or not (type(error).__name__ in _LOST or client.status != "running"):
            raise
        told = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        raise ClusterError(f"The Dask cluster at {_address(client)} is lost ({told}).") from error


def patiently(client: Client, call: Callable[[], R]) -> R:
    """What a call that waits for workers gives; without any for a time it is given up."""
    answer: Answer[R] = Answer()
    threading.Thread(target=_answered, args=(answer, call), daemon=True).start()
    alone_since = time.monotonic()
    while not wait([answer], timeout=BETWEEN_LOOKS).done:
        if client.status == "running" and workers_of(client):
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > WORKERLESS:
            told = f"has had no workers for {WORKERLESS:g} s; start some, and fit again"
            raise ClusterError(f"The Dask cluster at {_address(client)} {told}.")
    return answer.result()


def _answered(answer: Answer[R], call: Callable[[], R]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:
        answer.set_exception(error)


def _address(client: Client) -> str:
    """Where the scheduler is, or was."""
    return str(client._start_arg if client.scheduler is None else client.scheduler.address)


def workers_of(client: Client) -> dict[str, Mapping[str, float]]:
    """All workers by address; since 2025 Dask tells of five unless asked."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:
        info = client.scheduler_info()
    return dict(info["workers"])
