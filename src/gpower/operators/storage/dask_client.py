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
from gpower._utils.optional import import_optional

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from distributed import Client

R = TypeVar("R")

#: Seconds to wait for a scheduler, and for a cluster without workers to have one; seconds between two looks at it.
CONNECT_TIMEOUT_SECONDS, NO_WORKERS_TIMEOUT_SECONDS, POLL_INTERVAL_SECONDS = 10.0, 30.0, 1.0
#: What a cluster that is gone makes Dask raise, here by name so that Dask need not be imported.
_LOST_CLUSTER_ERROR_NAMES = (
    "CommClosedError",
    "CancelledError",
    "FuturesCancelledError",
    "KilledWorker",
    "TimeoutError",
)


class ClusterError(OSError):
    """A cluster that is gone, or whose workers die at the same task again and again."""


def get_current_client() -> Client:
    """The user's client; None if there is none."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def connect_to_cluster(address: str, timeout: float | None = None) -> Client:
    """A client of the cluster at an address, which later fits use; seconds to wait for an answer."""
    distributed = import_optional("distributed", "dask", "A cluster needs dask and")
    try:
        return distributed.Client(address, timeout=CONNECT_TIMEOUT_SECONDS if timeout is None else timeout)
    except OSError as error:
        raise ClusterError(f"No Dask scheduler answers at {address} ({error}).") from None


def compute_on_cluster(array: DaskArray) -> Array:
    """A Dask array as numbers, from the cluster if there is one; a lost one is named."""
    client = get_current_client()
    if client is None:
        return np.asarray(array)
    with convert_cluster_errors(client):
        return np.asarray(call_with_worker_timeout(client, array.compute))


@contextmanager
def convert_cluster_errors(client: Client) -> Iterator[None]:
    """What is raised because the cluster is gone becomes our error; whatever Dask raises then, the client is closed."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ClusterError) or not (
            type(error).__name__ in _LOST_CLUSTER_ERROR_NAMES or client.status != "running"
        ):
            raise
        told = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        raise ClusterError(f"The Dask cluster at {_get_scheduler_address(client)} is lost ({told}).") from error


def call_with_worker_timeout(client: Client, call: Callable[[], R]) -> R:
    """What a call that waits for workers gives; without any for a time it is given up."""
    answer: Answer[R] = Answer()
    threading.Thread(target=_set_future_result, args=(answer, call), daemon=True).start()
    alone_since = time.monotonic()
    while not wait([answer], timeout=POLL_INTERVAL_SECONDS).done:
        if client.status == "running" and get_workers(client):
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > NO_WORKERS_TIMEOUT_SECONDS:
            told = f"has had no workers for {NO_WORKERS_TIMEOUT_SECONDS:g} s; start some, and fit again"
            raise ClusterError(f"The Dask cluster at {_get_scheduler_address(client)} {told}.")
    return answer.result()


def _set_future_result(future: Answer[R], call: Callable[[], R]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


def _get_scheduler_address(client: Client) -> str:
    """Where the scheduler is, or was."""
    return str(client._start_arg if client.scheduler is None else client.scheduler.address)


def get_workers(client: Client) -> dict[str, Mapping[str, float]]:
    """All workers by address; since 2025 Dask tells of five unless asked."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:
        info = client.scheduler_info()
    return dict(info["workers"])
