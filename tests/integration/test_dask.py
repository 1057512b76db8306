"""Dask arrays give the result of the array in memory, on threads and on a real cluster, also if workers die."""

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter
from functools import cache
from math import fsum

import numpy as np
import pytest
import scipy.sparse as sp
from tests.fitted_models import assert_same_fit
from tests.polling import wait_until

from gpower import GPower, Solver
from gpower.io.stores.matrix_source import StoreError

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from gpower.operators.storage import dask as module  # noqa: E402
from gpower.operators.storage.dask import DaskMatrix, from_store  # noqa: E402
from gpower.operators.storage.dask_client import ClusterError, compute_on_cluster  # noqa: E402

LOOPBACK = "127.0.0.1:0"  # no service listens beyond this machine, and ports are free ones
P, N = 150, 2000
rng = np.random.default_rng(0)
LOADINGS = np.zeros((3, N))
for j, (size, loading) in enumerate(((12, 2.0), (10, 1.6), (9, 1.3))):
    LOADINGS[j, 50 * j : 50 * j + size] = loading
X = rng.standard_normal((P, 3)) @ LOADINGS + rng.standard_normal((P, N)) + rng.uniform(-3, 3, N)
COUNTS = rng.poisson(np.exp(rng.standard_normal((P, 3)) @ LOADINGS * 0.6 - 1.5)).astype(float)
WEIGHTS = rng.uniform(0.2, 3, P)


def rows(A=X, size=40):
    return da.from_array(A, chunks=(size, A.shape[1]))


def columns(A=X, size=300):
    return da.from_array(A, chunks=(A.shape[0], size))


def csr(A=COUNTS, size=40):
    return da.from_array(A, chunks=(size, A.shape[1])).map_blocks(sp.csr_matrix)


def csc(A=COUNTS, size=300):
    return da.from_array(A, chunks=(A.shape[0], size)).map_blocks(sp.csc_matrix)


ARRAYS = {"rows": (rows, X), "columns": (columns, X), "CSR": (csr, COUNTS), "CSC": (csc, COUNTS)}


@cache
def reference(name, **options):
    """Return the fit to one of the arrays in memory."""
    return GPower(2, **options).fit(ARRAYS[name][1])


def start_cluster(**options):
    """Start a cluster on this machine, of two workers unless said otherwise."""
    two = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": LOOPBACK}
    return distributed.LocalCluster(**two | options)


@pytest.fixture(scope="module")
def cluster():
    """Yield a cluster of two workers on this machine and close it without waiting for restarts."""
    with start_cluster(processes=True, memory_limit="1GB") as made:
        yield made


@pytest.fixture
def store(tmp_path):
    """Return the table on disk as a Dask array."""
    np.save(tmp_path / "x.npy", X)
    return from_store(tmp_path / "x.npy", block_bytes=200_000)


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=True) as made:
        yield made


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "options",
    [{"cardinality": 12}, {"gamma": 0.05}, {"cardinality": 12, "scale": True}, {"penalty": "l1", "gamma": 0.3}],
    ids=str,
)
def test_threads_give_the_answer_of_the_array(name, options):
    assert_same_fit(GPower(2, **options).fit(ARRAYS[name][0]()), reference(name, **options))


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
def test_other_numbers_are_worked_on_as_float64(dtype):
    A = (COUNTS > 0 if dtype == "bool" else COUNTS).astype(dtype)
    found = GPower(1, cardinality=12).fit(rows(A))
    assert found.components_.dtype == np.float64
    assert_same_fit(found, GPower(1, cardinality=12).fit(A.astype(float)))


def test_chunks_along_both_axes_are_joined_with_a_warning():
    both = da.from_array(X, chunks=(80, 1100))
    with pytest.warns(UserWarning, match=r"chunked along both axes \(2 × 2\) and is rechunked by rows"):
        found = GPower(2, cardinality=12).fit(both)
    assert_same_fit(found, reference("rows", cardinality=12))


def test_empty_and_uneven_chunks():
    uneven = da.concatenate([rows(X[:1]), rows(X[1:1]), rows(X[1:90], 7), rows(X[90:], 60)])
    assert_same_fit(GPower(2, cardinality=12).fit(uneven), reference("rows", cardinality=12))


class TestLazy:
    @pytest.mark.parametrize("name", ["rows", "columns", "CSR"])
    def test_transform_computes_nothing_until_it_is_asked(self, name):
        make, A = ARRAYS[name]
        seen = []
        lazy = make().map_blocks(lambda block: seen.append(block.shape) or block, meta=make()._meta)
        model = reference(name, cardinality=12, scale=True)
        scores = model.transform(lazy)
        assert not seen
        assert isinstance(scores, da.Array)
        assert (scores.shape, scores.dtype) == ((P, 2), np.float64)
        np.testing.assert_allclose(scores.compute(scheduler="synchronous"), model.transform(A), atol=1e-10)
        assert len(seen) == lazy.npartitions
        assert model.score(make()) == pytest.approx(model.score(A))

    def test_a_missing_value_is_reported_when_it_is_read(self):
        A = X.copy()
        A[101, 7] = np.nan
        scores = reference("rows", cardinality=12).transform(rows(A))
        with pytest.raises(ValueError, match=r"first in row 101 \(counted from 0\), column 7"):
            scores.compute(scheduler="synchronous")


class TestErrors:
    def test_unknown_sizes(self):
        unknown = rows()[rows()[:, 0] > 0]
        with pytest.raises(StoreError, match=r"chunks of unknown size along its rows; call X\.compute_chunk_sizes\(\)"):
            GPower(1).fit(unknown)
        known = unknown.compute_chunk_sizes()
        assert_same_fit(GPower(1, cardinality=12).fit(known), GPower(1, cardinality=12).fit(X[X[:, 0] > 0]))

    @pytest.mark.parametrize(
        ("A", "message"),
        [
            (np.zeros(20), "has 1 dimensions; a matrix of samples × variables has two"),
            (np.zeros((4, 4, 4)), "has 3 dimensions; a matrix of samples × variables has two"),
            (np.array([["a", "b"]]), "holds values of type <U1, not numbers"),
        ],
    )
    def test_what_is_no_matrix_of_numbers(self, A, message):
        with pytest.raises(StoreError, match=message):
            GPower(1).fit(da.from_array(A))


class TestStores:
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_blocks_are_read_where_they_are_used(self, tmp_path, order):
        np.save(tmp_path / "x.npy", np.asarray(X, order=order))
        lazy = from_store(tmp_path / "x.npy", block_bytes=400_000)
        assert lazy.numblocks == ((6, 1) if order == "C" else (1, 7))
        assert_same_fit(GPower(2, cardinality=12).fit(lazy), reference("rows", cardinality=12))

    def test_a_broken_one_is_named_and_something_else_refused(self, tmp_path, store):
        os.truncate(tmp_path / "x.npy", 1_500_000)
        with pytest.raises(StoreError, match=r"x\.npy"):
            GPower(1).fit(store)
        with pytest.raises(StoreError, match="this is not a store on disk"):
            from_store(X)


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARRAYS)
def test_a_cluster_gives_the_answer_of_the_array(client, name):
    make, A = ARRAYS[name]
    options = {"cardinality": 12, "scale": name == "rows"}
    model = GPower(2, **options).fit(make())
    assert_same_fit(model, reference(name, **options))
    np.testing.assert_allclose(model.transform(make()).compute(), model.transform(A), atol=1e-10)


class TestTasks:
    def count_tasks(self, client, call):
        """Count the functions that the workers ran for one product."""

        def computed(dask_scheduler):
            return Counter(
                {name: prefix.state_counts["memory"] for name, prefix in dask_scheduler.task_prefixes.items()}
            )

        before = client.run_on_scheduler(computed)
        call()
        return dict(client.run_on_scheduler(computed) - before)

    @pytest.mark.parametrize("chunks", [10, 40])
    def test_a_product_is_one_task_per_worker(self, client, chunks):
        matrix = DaskMatrix(rows(size=chunks))
        Y = np.ones((P, 1))
        matrix.transposed_times(Y)  # the blocks are now in memory
        assert self.count_tasks(client, lambda: matrix.transposed_times(Y)) == {"sum_over_blocks": 2}
        assert self.count_tasks(client, lambda: matrix.times(np.ones((N, 1)))) == {"run_on_blocks": 2}

    def test_tasks_are_pinned_softly(self, client, monkeypatch):
        seen = []
        submit = client.submit
        monkeypatch.setattr(client, "submit", lambda *a, **k: seen.append(k) or submit(*a, **k))
        matrix = DaskMatrix(rows(size=10))
        matrix.transposed_times(np.ones((P, 1)))
        assert {k["workers"][0] for k in seen} == set(client.scheduler_info()["workers"])
        assert all(k["allow_other_workers"] for k in seen)


class TestSums:
    def test_they_are_exact_in_every_grouping_and_order_of_the_blocks(self):
        terms = np.concatenate([1e16 * rng.standard_normal((40, 5)), rng.standard_normal((40, 5))])
        exact = [fsum(column) for column in terms.T]
        for seed in range(20):
            groups = np.array_split(np.random.default_rng(seed).permutation(len(terms)), 1 + seed % 4)
            parts = [module._sum_compensated((terms[i], 0.0) for i in group) for group in groups]
            np.testing.assert_array_equal(np.sum(module._sum_compensated(parts), axis=0), exact)

    def test_a_fit_repeats_to_the_last_digit_wherever_the_blocks_are(self, client):
        fits = []
        for spread in (False, True):
            lazy = rows(size=15).persist()
            distributed.wait(lazy)
            if spread:  # every block moves to the other worker
                addresses = list(client.scheduler_info()["workers"])
                swapped = [
                    client.submit(np.array, part, workers=[addresses[i % 2]], pure=False)
                    for i, part in enumerate(distributed.futures_of(lazy))
                ]
                parts = [da.from_delayed(part, (min(15, P - 15 * i), N), X.dtype) for i, part in enumerate(swapped)]
                lazy = da.concatenate(parts)
            fits.append(GPower(2, cardinality=12).fit(lazy))
        np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


def unaligned(array):
    """Return an array at an odd address, as after a transfer."""
    buffer = np.empty(array.nbytes + 1, np.uint8)[1:]
    moved = buffer.view(array.dtype).reshape(array.shape, order="F" if array.flags.f_contiguous else "C")
    moved[...] = array
    return moved


class TestAlignment:
    def test_a_block_is_aligned_once_if_it_has_to_be(self):
        dense, sparse = unaligned(X), sp.csr_matrix(COUNTS)
        sparse.data, sparse.indices = unaligned(sparse.data), unaligned(sparse.indices)
        assert not dense.flags.aligned
        block, even = module._WorkerBlock(dense), module._WorkerBlock(sparse).get_aligned()
        assert block.get_aligned() is block.get_aligned()
        assert all(part.flags.aligned for part in (block.get_aligned(), even.data, even.indices))
        np.testing.assert_array_equal(block.get_aligned(), X)
        np.testing.assert_array_equal(even.toarray(), COUNTS)
        assert module._WorkerBlock(X).get_aligned() is X

    def test_blocks_report_their_memory_to_dask(self):
        assert module._WorkerBlock(X).__sizeof__() == X.nbytes
        stored = sp.csr_matrix(COUNTS)
        assert module._WorkerBlock(stored).__sizeof__() == stored.data.nbytes + stored.indices.nbytes


def test_a_matrix_too_large_for_the_workers_is_reported_before_the_work(client):
    seen = []
    huge = da.zeros((20_000, 10_000), chunks=(1000, 10_000)).map_blocks(
        lambda block: seen.append(1) or block, meta=np.empty((0, 0))
    )
    matrix = DaskMatrix(huge)
    with pytest.warns(UserWarning, match=r"takes 1\.6 GB, more than 55% of the 2 GB that the workers have"):
        matrix._warn_if_memory_short()
    assert not seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DaskMatrix(da.zeros((1000, 10_000), chunks=(100, 10_000)))._warn_if_memory_short()
    small = da.zeros((10_000, 10_000), dtype=np.int8, chunks=(1000, 10_000))
    assert DaskMatrix(small).nbytes == 8e8  # in the working type, float64


def test_vectors_of_any_length_are_sent_without_a_warning(client):
    """Dask warns of large arguments, but the vectors of a product are no mistake."""
    matrix = DaskMatrix(da.ones((3, 400_000), chunks=(3, 100_000)))
    T = np.ones((400_000, 8))
    np.testing.assert_allclose(matrix.times(T), 400_000)


@pytest.mark.parametrize("where", ["blocks", "product"])
def test_nothing_is_left_in_flight_after_an_interrupt(client, where):
    begun, over = distributed.Event(f"{where} begun"), distributed.Event(f"{where} over")

    def slow(block):
        distributed.Event(f"{where} begun").set()
        distributed.Event(f"{where} over").wait(30)
        return block

    matrix = DaskMatrix(rows().map_blocks(slow, meta=np.empty((0, 0))) if where == "blocks" else rows())
    if where == "product":
        matrix.transposed_times(np.ones((P, 1)))
    caller = threading.Timer(0, lambda: (begun.wait(20), os.kill(os.getpid(), signal.SIGINT)))
    caller.start()
    with pytest.raises(KeyboardInterrupt):
        matrix.map_blocks(slow, matrix.repeat_arguments())
    caller.join()
    assert wait_until(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    over.set()


# --- faults: each on a cluster of its own -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_loss_of_a_worker_does_not_change_the_result(store):
    calls = []
    with start_cluster(protocol="tcp") as cluster, distributed.Client(cluster) as client:

        def kill_in_round_three(state):
            calls.append(state)
            if len(calls) == 3:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        found = GPower(3, cardinality=12, solver=Solver(callback=kill_in_round_three)).fit(store)
    assert len(calls) > 3
    assert_same_fit(found, GPower(3, cardinality=12).fit(X), 1e-12)


class TestSchedulerLoss:
    @pytest.mark.slow
    def test_it_is_reported_and_the_components_found_are_kept(self, tmp_path, store):
        path = tmp_path / "fit.npz"
        code = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    )
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()  # until the test is over
"""
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        address = process.stdout.readline().strip()
        with distributed.Client(address):

            def watch(state):
                if path.exists():
                    process.kill()
                    process.wait()

            with pytest.raises(ClusterError, match=f"The Dask cluster at {address} is lost"):
                GPower(3, cardinality=12, checkpoint=path, solver=Solver(callback=watch)).fit(store)
        process.stdin.close()
        process.stdout.close()
        found = GPower(3, cardinality=12, checkpoint=path, resume=True).fit(store)  # on threads
        assert found.n_passes_ < GPower(3, cardinality=12).fit(store).n_passes_
        assert_same_fit(found, GPower(3, cardinality=12).fit(X))

    def test_a_cluster_without_workers_is_not_waited_for(self, monkeypatch):
        monkeypatch.setattr("gpower.operators.storage.dask_client.NO_WORKERS_TIMEOUT_SECONDS", 0.5)
        monkeypatch.setattr("gpower.operators.storage.dask_client.POLL_INTERVAL_SECONDS", 0.1)
        none = start_cluster(n_workers=0, processes=False, protocol="tcp")
        with none as cluster, distributed.Client(cluster) as client:
            told = f"The Dask cluster at {client.scheduler.address} has had no workers for 0.5 s; start some"
            with pytest.raises(ClusterError, match=re.escape(told)):
                GPower(1, cardinality=12).fit(rows())
            with pytest.raises(ClusterError, match=re.escape(told)):
                compute_on_cluster(rows())

    def test_every_error_of_a_lost_client_is_a_cluster_error(self):
        with start_cluster(n_workers=1, processes=False, protocol="tcp") as cluster:
            client = distributed.Client(cluster)
            matrix = DaskMatrix(rows())
            client.close()
            with pytest.raises(ClusterError, match=r"The Dask cluster at .* is lost"):
                matrix.sum_blocks(lambda block: block.sums(None), [() for _ in matrix.get_block_slices()])

    @pytest.mark.slow
    def test_a_task_that_kills_every_worker_is_abandoned(self):
        with start_cluster(protocol="tcp") as cluster, distributed.Client(cluster) as client:
            client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
            deadly = rows().map_blocks(lambda block: os._exit(1), meta=np.empty((0, 0)))
            with pytest.raises(ClusterError, match=r"is lost \(KilledWorker"):
                GPower(1, cardinality=12).fit(deadly)


def test_a_worker_of_another_python_is_refused(client, monkeypatch):
    versions = client.get_versions()
    address = next(iter(versions["workers"]))
    versions["workers"][address]["host"]["python"] = "3.9.1.final.0"
    monkeypatch.setattr(type(client), "get_versions", lambda self: versions)
    told = rf"The Dask worker at {re.escape(address)} runs Python 3\.9, and this client Python {sys.version_info[0]}\."
    with pytest.raises(ClusterError, match=told):
        GPower(1, cardinality=12).fit(rows())


@pytest.mark.slow
def test_a_worker_that_sleeps_for_a_while_does_not_change_the_result(store):
    suspended = []
    with start_cluster(processes=True) as cluster, distributed.Client(cluster) as client:

        def suspend(state):
            if not suspended:
                suspended.append(next(iter(client.run(os.getpid).values())))
                os.kill(suspended[0], signal.SIGSTOP)
                threading.Timer(3.0, os.kill, (suspended[0], signal.SIGCONT)).start()

        found = GPower(3, cardinality=12, solver=Solver(callback=suspend)).fit(store)
    assert suspended
    assert_same_fit(found, GPower(3, cardinality=12).fit(X), 1e-12)
