"""A resumed fit equals the uninterrupted one to the last digit; checkpoints of other fits are refused."""

import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.seeds import seeds
from tests.stored_matrices import make_counting_store, make_store

from gpower import GPower, Solver
from gpower.io.model_file import read_model, write_model
from gpower.io.stores.matrix_source import MatrixSource, StoreError

P, N = 60, 400
rng = np.random.default_rng(0)
LOADINGS = np.zeros((4, N))
for j in range(4):
    LOADINGS[j, 10 * j : 10 * j + 10] = 2.0 - 0.3 * j
X = rng.standard_normal((P, 4)) @ LOADINGS + rng.standard_normal((P, N))


class Interrupted(RuntimeError):
    pass


def interrupting(after):
    """Return a reader of X that fails once a checkpoint has a given number of components."""

    def read(lo, hi):
        if after["path"].exists() and len(read_model(after["path"])[0]["notes"]) >= after["components"]:
            raise Interrupted("the cable was pulled")
        return X[lo:hi]

    return MatrixSource("x", X.shape, X.dtype, read)


def model(path=None, **changed):
    options = {"n_components": 4, "cardinality": 8, "memory_limit": 100_000, "checkpoint": path}
    return GPower(**options | changed)


def stopped(path, components=2, **changed):
    """Write the checkpoint of an interrupted fit."""
    with pytest.raises(StoreError, match="the cable was pulled"):
        model(path, **changed).fit(interrupting({"path": path, "components": components}))
    assert len(read_model(path)[0]["notes"]) == components
    return path


@pytest.fixture(scope="module")
def stopped_file(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("stopped") / "fit.npz")


@pytest.fixture
def checkpoint(stopped_file, tmp_path):
    """Return the path of a checkpoint of an interrupted fit, with two components."""
    return shutil.copy(stopped_file, tmp_path / "fit.npz")


@pytest.mark.parametrize("components", seeds([2, 1, 3], fast=1))
@pytest.mark.parametrize(
    "options",
    [{}, {"random_state": 3, "n_init": 4}, {"cardinality": None, "gamma": 0.1, "scale": True}, {"deflation": "schur"}],
    ids=str,
)
def test_a_resumed_fit_is_the_uninterrupted_one_bit_for_bit(tmp_path, components, options):
    expected = model(tmp_path / "other.npz", **options).fit(make_store(X))
    path = stopped(tmp_path / "fit.npz", components, **options)
    found = model(path, resume=True, **options).fit(make_store(X))
    for name in ("components_", "objective_", "gamma_", "stationarity_gap_", "n_iter_", "converged_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_components_found_before_are_not_found_again(tmp_path):
    path = stopped(tmp_path / "fit.npz", 3)
    counted, reads = make_counting_store(X)
    resumed = model(path, resume=True).fit(counted)
    n_reads_resumed = len(reads)
    uninterrupted = model().fit(counted)
    assert n_reads_resumed < 0.7 * (len(reads) - n_reads_resumed)
    assert resumed.n_passes_ < uninterrupted.n_passes_


@pytest.mark.parametrize("data", [X, make_store(X)], ids=["array", "store"])
def test_without_a_file_a_resumed_fit_is_one_without_a_checkpoint(tmp_path, data):
    found = model(tmp_path / "new.npz", resume=True).fit(data)
    np.testing.assert_allclose(found.components_, model().fit(data).components_, rtol=0, atol=1e-12)


def test_without_resume_the_old_checkpoint_is_replaced(checkpoint):
    expected = model(checkpoint, n_components=2).fit(X[::-1])
    found = model(checkpoint, n_components=2, resume=True).fit(X[::-1])
    np.testing.assert_array_equal(found.components_, expected.components_)


@pytest.mark.parametrize(
    "changed",
    [{"n_components": 3}, {"cardinality": 9}, {"scale": True}, {"random_state": 1}, {"tol": 1e-5}, {"include": [4]}],
    ids=str,
)
def test_other_parameters_are_refused(checkpoint, changed):
    message = r"is a checkpoint of other data or other parameters.*resume=False to start anew"
    with pytest.raises(ValueError, match=message):
        model(checkpoint, resume=True, **changed).fit(make_store(X))


def test_parameters_without_effect_on_the_fit_may_change(checkpoint):
    solver = Solver(callback=lambda state: None)
    found = model(checkpoint, resume=True, verbose=0, memory_limit=90_000, solver=solver).fit(make_store(X))
    np.testing.assert_allclose(found.components_, model().fit(make_store(X)).components_, atol=1e-10)


OTHER_DATA = {
    "shuffled": np.random.default_rng(1).permuted(X, axis=0),  # every column alone: the same means and norms
    "scaled": X * 1.001,
    "shifted": X + 1e-5,
    "reversed": X[:, ::-1],
    "shortened": X[:-1],
    "one entry": X + 1e-3 * (np.arange(X.size) == 7 * N + 31).reshape(X.shape),
}


@pytest.mark.parametrize("other", OTHER_DATA.values(), ids=OTHER_DATA)
def test_other_data_are_refused(checkpoint, other):
    with pytest.raises(ValueError, match="checkpoint of other data"):
        model(checkpoint, resume=True).fit(other)


@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e8])
def test_the_same_data_read_in_other_blocks_are_the_same(tmp_path, factor):
    """Sums in another order differ in the last digits, whatever the units of the data."""
    A = factor * X
    model(tmp_path / "fit.npz").fit(make_store(A))
    for same in (A, np.asfortranarray(A), sp.csr_array(A), make_store(A, 1)):
        model(tmp_path / "fit.npz", resume=True).fit(same)


def test_a_generator_is_resumed_in_its_state(tmp_path):
    options = {"cardinality": None, "gamma": 0.1, "solver": Solver(init="largest_norm")}
    path = stopped(tmp_path / "fit.npz", random_state=np.random.RandomState(5), **options)
    found = model(path, resume=True, random_state=np.random.RandomState(99), **options).fit(make_store(X))
    expected = model(tmp_path / "other.npz", random_state=np.random.RandomState(5), **options).fit(make_store(X))
    np.testing.assert_array_equal(found.components_, expected.components_)


@pytest.mark.slow
def test_a_killed_process_leaves_a_whole_checkpoint(tmp_path):
    """After SIGKILL in the third component, the fit is resumed from the first two."""
    path, data = tmp_path / "fit.npz", tmp_path / "x.npy"
    np.save(data, X)
    code = f"""
import os, signal
from gpower import GPower, Solver
from gpower.io.model_file import read_model, write_model
from gpower.validation.prepare import PreparedData
path = {str(path)!r}
def watch(state):
    if os.path.exists(path) and len(read_model(path)[0]["notes"]) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
GPower(4, cardinality=8, memory_limit=100_000, checkpoint=path, solver=Solver(callback=watch)).fit({str(data)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    found = model(path, resume=True).fit(data)
    np.testing.assert_array_equal(found.components_, model(tmp_path / "other.npz").fit(data).components_)


@pytest.mark.parametrize("resume", [False, True])
def test_another_file_is_never_replaced(tmp_path, resume):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    model().fit(X).save(tmp_path / "model.npz")
    for path in sorted(tmp_path.iterdir()):
        before = path.read_bytes()
        with pytest.raises(ValueError, match="give another path"):
            model(path, resume=resume).fit(X)
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": True}, "resume=True continues from a checkpoint; give its file as checkpoint="),
        ({"checkpoint": "fit.npz", "method": "block"}, "method='block' finds all at once"),
        ({"checkpoint": "no such folder/fit.npz"}, "cannot be written: there is no such folder"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GPower(2, **options).fit(X)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    path, n_components = tmp_path / "fit.npz", []

    def write_until_the_disk_is_full(place, header, arrays):
        n_components.append(len(header["notes"]))
        if n_components[-1] == 3:
            raise OSError(28, "No space left on device")
        write_model(place, header, arrays)

    monkeypatch.setattr("gpower.estimators.checkpointing.write_model", write_until_the_disk_is_full)
    expected = (
        r"The checkpoint '.*fit.npz' could not be written: No space left on device\. .* with 3 component\(s\) found\. "
        r"The previous checkpoint is still in '.*fit.npz'"
    )
    with pytest.raises(OSError, match=expected):
        model(path).fit(X)
    assert n_components == [1, 2, 3]
    monkeypatch.undo()
    found = model(path, resume=True).fit(X)
    np.testing.assert_array_equal(found.components_, model(tmp_path / "other.npz").fit(X).components_)
