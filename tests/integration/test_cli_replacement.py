"""The results of a run replace those of an earlier run all together, or not at all."""

import os

import pytest
from tests.command_line import assert_refused

from gpower._utils.files import write_file_atomically, write_files_atomically

OBSTACLES = {
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path),
    "link to nowhere": lambda path: path.symlink_to(path.parent / "absent" / "model.npz"),
    "link to another file system": lambda path: path.symlink_to("/dev/shm/gpower-test-model.npz"),
}


@pytest.fixture(params=OBSTACLES)
def put_obstacle(request, tmp_path):
    """Return a function that makes a path one that cannot be replaced."""
    shared = "/dev/shm"
    if "another" in request.param and (not os.path.isdir(shared) or os.stat(shared).st_dev == tmp_path.stat().st_dev):
        pytest.skip("needs another file system")
    return OBSTACLES[request.param]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the result of an earlier run."""
    (tmp_path / "a.csv").write_text("old")
    return tmp_path


def write_two(folder):
    with write_files_atomically(folder) as temporary:
        (temporary / "a.csv").write_text("new")
        (temporary / "model.npz").write_text("new")


def read_files(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def assert_nothing_replaced(folder, error):
    """Check that an error is about the model, and that the new results are kept next to the old ones."""
    assert error.filename == str(folder / "model.npz")
    assert read_files(folder) == {"a.csv": "old"}
    (kept,) = folder.glob("new-results-*")
    assert read_files(kept) == {"a.csv": "new", "model.npz": "new"}


def test_an_obstacle_is_found_before_the_fit(gpower, data, tmp_path, monkeypatch, put_obstacle):
    monkeypatch.setattr("gpower.cli.commands.fit.load_table", None)
    (tmp_path / "r").mkdir()
    put_obstacle(tmp_path / "r" / "model.npz")
    assert_refused(gpower("fit", data, "-k", 3, "-o", tmp_path / "r"), f"{tmp_path / 'r' / 'model.npz'}: this is a")


def test_an_obstacle_that_appears_later_replaces_nothing(folder, put_obstacle):
    put_obstacle(folder / "model.npz")
    with pytest.raises(OSError, match="nothing was replaced, and the new results are in") as caught:
        write_two(folder)
    assert_nothing_replaced(folder, caught.value)


def test_a_failure_half_way_puts_the_earlier_files_back(folder, monkeypatch):
    replace = os.replace

    def fail(source, target):
        if os.path.basename(target) == "model.npz" and os.path.dirname(target) == str(folder):
            raise PermissionError(1, "Operation not permitted", source)
        replace(source, target)

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="Operation not permitted; nothing was replaced") as caught:
        write_two(folder)
    assert_nothing_replaced(folder, caught.value)


def interrupt_after_replacing(monkeypatch, name):
    replace = os.replace

    def replace_and_stop(source, target):
        replace(source, target)
        if os.path.basename(source) == name and ".gpower-" in str(source) and ".gpower-" not in str(target):
            monkeypatch.setattr("os.replace", replace)
            raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", replace_and_stop)


def test_an_interruption_half_way_puts_the_earlier_files_back(folder, monkeypatch):
    interrupt_after_replacing(monkeypatch, "a.csv")
    with pytest.raises(KeyboardInterrupt):
        write_two(folder)
    assert [path.name for path in folder.iterdir()] == ["a.csv"]
    assert read_files(folder) == {"a.csv": "old"}


def test_an_interruption_after_a_single_file_keeps_it(folder, monkeypatch):
    interrupt_after_replacing(monkeypatch, "a.csv")
    with pytest.raises(KeyboardInterrupt), write_file_atomically(folder / "a.csv") as path:
        path.write_text("new")
    assert [path.name for path in folder.iterdir()] == ["a.csv"]
    assert read_files(folder) == {"a.csv": "new"}


def test_two_processes_do_not_mix_their_results(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    replace, found = os.replace, []

    def is_locked():
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    monkeypatch.setattr("os.replace", lambda *paths: found.append(is_locked()) or replace(*paths))
    write_two(tmp_path)
    assert found == [True, True]
    assert not is_locked()
