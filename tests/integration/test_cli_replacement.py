"""The results of a run replace those of an earlier run all together, or not at all."""

import os

import pytest

from gpower._utils.files import write_file_atomically, write_files_atomically


def make_folder(path):
    path.mkdir()


def make_loop(path):
    path.symlink_to(path)


def make_link_to_nowhere(path):
    path.symlink_to(path.parent / "absent" / "model.npz")


def make_link_to_another_file_system(path):
    path.symlink_to("/dev/shm/gpower-test-model.npz")


OBSTACLES = [make_folder, make_loop, make_link_to_nowhere, make_link_to_another_file_system]


def skip_without_another_file_system(make, folder):
    if make is make_link_to_another_file_system and (
        not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == folder.stat().st_dev
    ):
        pytest.skip("needs another file system")


@pytest.mark.parametrize("make", OBSTACLES)
def test_an_obstacle_is_found_before_the_fit(gpower, data, tmp_path, monkeypatch, make):
    skip_without_another_file_system(make, tmp_path)
    monkeypatch.setattr("gpower.cli.commands.fit.load_table", None)
    (tmp_path / "r").mkdir()
    make(tmp_path / "r" / "model.npz")
    result = gpower("fit", data, "-k", 3, "-o", tmp_path / "r")
    assert result.exit_code == 1
    assert f"error: {tmp_path / 'r' / 'model.npz'}: this is a" in result.stderr


@pytest.mark.parametrize("make", OBSTACLES)
def test_an_obstacle_that_appears_later_replaces_nothing(tmp_path, make):
    skip_without_another_file_system(make, tmp_path)
    (tmp_path / "a.csv").write_text("old")
    make(tmp_path / "model.npz")
    with pytest.raises(OSError, match="nothing was replaced, and the new results are in") as caught:
        write_two(tmp_path)
    assert caught.value.filename == str(tmp_path / "model.npz")
    assert (tmp_path / "a.csv").read_text() == "old"
    assert read_kept(tmp_path) == {"a.csv": "new", "model.npz": "new"}


def test_a_failure_half_way_puts_the_earlier_files_back(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")
    replace = os.replace

    def fail(source, target):
        if os.path.basename(target) == "model.npz" and os.path.dirname(target) == str(tmp_path):
            raise PermissionError(1, "Operation not permitted", source)
        replace(source, target)

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="Operation not permitted; nothing was replaced") as caught:
        write_two(tmp_path)
    assert caught.value.filename == str(tmp_path / "model.npz")
    assert (tmp_path / "a.csv").read_text() == "old"
    assert not (tmp_path / "model.npz").exists()
    assert read_kept(tmp_path) == {"a.csv": "new", "model.npz": "new"}


def interrupt_after_replacing(monkeypatch, name):
    replace = os.replace

    def replace_and_stop(source, target):
        replace(source, target)
        if os.path.basename(source) == name and ".gpower-" in str(source) and ".gpower-" not in str(target):
            monkeypatch.setattr("os.replace", replace)
            raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", replace_and_stop)


def test_an_interruption_half_way_puts_the_earlier_files_back(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")
    interrupt_after_replacing(monkeypatch, "a.csv")
    with pytest.raises(KeyboardInterrupt):
        write_two(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "old"}


def test_an_interruption_after_a_single_file_keeps_it(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")
    interrupt_after_replacing(monkeypatch, "a.csv")
    with pytest.raises(KeyboardInterrupt), write_file_atomically(tmp_path / "a.csv") as path:
        path.write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "new"}


def test_nothing_is_left_behind_when_all_are_replaced(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    write_two(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "new", "model.npz": "new"}


def test_a_single_file_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x.csv").symlink_to(tmp_path / "elsewhere" / "x.csv")
    with write_file_atomically(tmp_path / "x.csv") as path:
        assert path.parent.parent == tmp_path / "elsewhere"  # on the same file system as the target
        path.write_text("new")
    assert (tmp_path / "x.csv").is_symlink()
    assert (tmp_path / "x.csv").read_text() == "new"


def write_two(folder):
    with write_files_atomically(folder) as temporary:
        (temporary / "a.csv").write_text("new")
        (temporary / "model.npz").write_text("new")


def read_kept(folder):
    (kept,) = folder.glob("new-results-*")
    return {path.name: path.read_text() for path in kept.iterdir()}


def test_two_processes_do_not_mix_their_results(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    replace, refusals = os.replace, []

    def replace_while_another_tries(source, target):
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as refusal:
            refusals.append(refusal)
        finally:
            os.close(handle)
        replace(source, target)

    monkeypatch.setattr("os.replace", replace_while_another_tries)
    with write_files_atomically(tmp_path) as temporary:
        for name in ("loadings.csv", "scores.csv"):
            (temporary / name).write_text("new")
    assert len(refusals) == 2
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again
    os.close(handle)
