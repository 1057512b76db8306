"""Calls to a Dask cluster: one that is slow, lost or without workers raises an error, and no call waits forever.

A client, of the class `Client` of `distributed`, is the connection to a cluster, a scheduler and its workers.
``import_optional(module, extra, …)`` imports a module, or raises ImportError with the extra to install.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gpower._utils.arrays import Array
from gpower._utils.optional import import_optional

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from distributed import Client

R = TypeVar("R")

#: Time to wait for a scheduler to answer.
CONNECT_TIMEOUT_SECONDS = 10.0
#: Time to wait for a worker while the cluster has none.
NO_WORKERS_TIMEOUT_SECONDS = 30.0
#: Time between two checks whether the cluster has workers.
POLL_INTERVAL_SECONDS = 1.0
#: Names of the errors that Dask raises if a cluster is lost; names, so that Dask need not be imported.
_LOST_CLUSTER_ERROR_NAMES = (
    "CommClosedError",
    "CancelledError",
    "FuturesCancelledError",
    "KilledWorker",
    "TimeoutError",
)


class ClusterError(OSError):
    """Error for a cluster that is lost, has no workers, or whose workers die repeatedly at the same task."""


def get_current_client() -> Client:
    """Return the client of the cluster that Dask uses at present, or None without one or without `distributed`."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def connect_to_cluster(address: str) -> Client:
    """Return a client of the cluster at an address, which later fits use."""
    distributed = import_optional("distributed", "dask", "A cluster needs dask and")
    try:
        return distributed.Client(address, timeout=CONNECT_TIMEOUT_SECONDS)
    except OSError as error:
        raise ClusterError(f"No Dask scheduler answers at {address} ({error}).") from None


def check_python_versions(client: Client) -> None:
    """Raise ClusterError if a worker runs another Python than the client: functions cannot be sent to it."""
    with convert_cluster_errors(client):
        versions = call_with_worker_timeout(client, client.get_versions)
    pythons = {name: _get_minor_python_version(info) for name, info in versions["workers"].items()}
    own = _get_minor_python_version(versions["client"])
    other = next((name for name, python in pythons.items() if python not in (own, "")), None)
    if other is not None:
        raise ClusterError(
            f"The Dask worker at {other} runs Python {pythons[other]}, and this client Python {own}, whose functions "
            f"it would misread; use Python {pythons[other]} here, or start the workers with Python {own}."
        )


def _get_minor_python_version(info: Mapping[str, Mapping[str, object]] | None) -> str:
    """Return the Python of a worker or client, such as "3.11"; "" if it did not answer."""
    python = str(info["host"].get("python", "")) if info and "host" in info else ""
    return ".".join(python.split(".")[:2])


def compute_on_cluster(array: DaskArray) -> Array:
    """Compute a Dask array, on the cluster if there is one; raise ClusterError if the cluster is lost."""
    client = get_current_client()
    if client is None:
        return np.asarray(array)
    with convert_cluster_errors(client):
        return np.asarray(call_with_worker_timeout(client, array.compute))


@contextmanager
def convert_cluster_errors(client: Client) -> Iterator[None]:
    """Raise ClusterError in place of any error that Dask raises because the cluster is lost.

    Other errors, such as those of the computation itself, pass unchanged while the client is running. `client` is not
    None.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ClusterError) or not (
            type(error).__name__ in _LOST_CLUSTER_ERROR_NAMES or client.status != "running"
        ):
            raise
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        raise ClusterError(f"The Dask cluster at {_get_scheduler_address(client)} is lost ({cause}).") from error


def call_with_worker_timeout(client: Client, call: Callable[[], R]) -> R:
    """Return the result of a call that waits for workers; raise ClusterError if there are none for some time.

    The call runs in a daemon thread, which stays behind after such an error or Ctrl-C. Its own errors are raised here.
    """
    future: Future[R] = Future()
    threading.Thread(target=_set_future_result, args=(future, call), daemon=True).start()
    last_worker_time = time.monotonic()
    while not wait([future], timeout=POLL_INTERVAL_SECONDS).done:
        if client.status == "running" and get_workers(client):
            last_worker_time = time.monotonic()
        elif time.monotonic() - last_worker_time > NO_WORKERS_TIMEOUT_SECONDS:
            problem = f"has had no workers for {NO_WORKERS_TIMEOUT_SECONDS:g} s; start some, and fit again"
            raise ClusterError(f"The Dask cluster at {_get_scheduler_address(client)} {problem}.")
    return future.result()


def _set_future_result(future: Future[R], call: Callable[[], R]) -> None:
    """Store the result of a call, or the exception that it raises, in a future that another thread waits for."""
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


def _get_scheduler_address(client: Client) -> str:
    """Return the present or last address of the scheduler."""
    return str(client._start_arg if client.scheduler is None else client.scheduler.address)


def get_workers(client: Client) -> dict[str, Mapping[str, float]]:
    """Return what the scheduler knows of each worker, by address, such as its `memory_limit` in bytes."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])  # without -1 Dask lists only five
