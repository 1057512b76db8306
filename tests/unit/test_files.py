"""Files are written whole or not at all, and read errors name the file."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from gpower._utils.files import (
    FileError,
    check_writable,
    convert_read_errors,
    write_file_atomically,
    write_files_atomically,
)
from gpower._utils.text import MAX_MESSAGE_LENGTH, format_names, make_printable, quote


def half_written(path, failure):
    """Fail while a file is written over an existing one."""
    (path.parent / "other.csv").write_text("whole")
    os.utime(path.parent / "other.csv", (0, 0))
    path.write_text("half")
    raise failure


class TestWriting:
    def test_files_appear_together(self, tmp_path):
        (tmp_path / "a.csv").write_text("old")
        with write_files_atomically(tmp_path) as place:
            (place / "a.csv").write_text("new")
            (place / "b.csv").write_text("new")
            assert (tmp_path / "a.csv").read_text() == "old"
            assert not (tmp_path / "b.csv").exists()
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "new", "b.csv": "new"}

    @pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
    def test_a_failure_leaves_the_files_before(self, tmp_path, failure):
        (tmp_path / "a.csv").write_text("old")
        with pytest.raises(failure), write_files_atomically(tmp_path) as place:
            half_written(place / "a.csv", failure())
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
        assert (tmp_path / "a.csv").read_text() == "old"

    def test_a_full_disk_names_the_file(self, tmp_path):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with (
            pytest.raises(OSError, match=r"No space left on device: '.*b\.csv'$") as raised,
            write_files_atomically(tmp_path) as place,
        ):
            half_written(place / "b.csv", full)
        assert raised.value.filename == str(tmp_path / "b.csv")
        assert list(tmp_path.iterdir()) == []

    def test_permissions_are_those_of_the_file_replaced_or_of_the_umask(self, tmp_path):
        (tmp_path / "secret").touch()
        (tmp_path / "secret").chmod(0o600)
        before = os.umask(0o027)
        try:
            with write_files_atomically(tmp_path) as place:
                (place / "secret").touch()
                (place / "new").touch()
        finally:
            os.umask(before)
        assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("secret", "new")] == [0o600, 0o640]

    def test_leftovers_of_a_killed_process_are_removed(self, tmp_path):
        for name, age in ((".gpower-old", 4000), (".gpower-busy", 4000), (".gpower-new", 10)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "half.csv").write_text("1,")
            for path in (tmp_path / name / "half.csv", tmp_path / name):
                os.utime(path, (time.time() - age,) * 2)
        os.utime(tmp_path / ".gpower-busy" / "half.csv")  # still being written
        with write_files_atomically(tmp_path) as place:
            (place / "whole.csv").write_text("1")
        assert sorted(path.name for path in tmp_path.iterdir()) == [".gpower-busy", ".gpower-new", "whole.csv"]

    def test_a_device_is_written_directly(self):
        with write_file_atomically(Path(os.devnull)) as place:
            assert str(place) == os.devnull

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs a folder that nobody can write into")
    def test_a_folder_that_cannot_be_written(self):
        with pytest.raises(OSError, match="nothing can be written here"):
            check_writable(Path("/proc/self/fd"))


class TestReading:
    @pytest.mark.parametrize("error", [KeyError("shape"), RecursionError("deep"), MemoryError("9 TB"), OSError("disk")])
    def test_every_read_error_names_the_file(self, error):
        expected = pytest.raises(FileError, match=r"^x\.npz: damaged \(.*(shape|deep|9 TB|disk)")
        with expected, convert_read_errors(lambda what: FileError(f"x.npz: damaged ({what}).")):
            raise error

    @pytest.mark.parametrize("error", [FileError("named already"), ImportError("pip install"), KeyboardInterrupt()])
    def test_errors_that_name_the_file_pass_unchanged(self, error):
        with pytest.raises(type(error)) as found, convert_read_errors(lambda what: FileError("dressed up")):
            raise error
        assert found.value is error


class TestNames:
    def test_controls_are_spelled_out(self):
        assert make_printable("a\x1b[2J\x07\u202eb\n") == r"a\x1b[2J\x07\u202eb\n"
        assert make_printable("漢字 é Ω") == "漢字 é Ω"

    def test_long_texts_keep_both_ends(self):
        text = make_printable("x" * 100_000 + "end")
        assert len(text) < MAX_MESSAGE_LENGTH + 10
        assert text.endswith("end")
        assert len(quote("9" * 100_000)) < 80
        assert len(str(FileError("y" * 100_000))) < MAX_MESSAGE_LENGTH + 10
        assert len(format_names(["z" * 10_000] * 10)) < 400
