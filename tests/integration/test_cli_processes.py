"""The command line as a process: signals, closed streams, a plain encoding and a missing extra."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
from tests.command_line import write_csv
from tests.seeds import seeds

import gpower
from gpower import SparsityPath

RESULTS = ["loadings.csv", "loadings_list.csv", "model.npz", "scores.csv"]
FILES = {
    "fit x.csv -k 3 -o r": RESULTS,
    "fit x.csv -k 3 -o r --plot r/x.png": [*RESULTS, "x.png"],
    "path x.csv -k 3 -o r": ["path.csv", "path.npz"],
    "compare x.csv -k 3 -o r --methods gpower-l0": ["comparison.csv"],
}
INTERRUPTED = "Interrupted.\n"
#: Start of a process up to the first line of `main`, before which no code of the package can answer a signal.
PROGRAM = """
import os, signal, sys
sys.argv[0] = "gpower"
import gpower.__main__ as entry
prepare = entry._prepare_streams
{}
entry.main()
"""


def start(*args, before="", stdout=PIPE, stderr=PIPE):
    """Start the command line in a process that first runs some code."""
    command = [sys.executable, "-c", PROGRAM.format(before), *map(str, args)]
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True)


def run(*args, **options):
    """Run the command line in a process, and return its exit code, stdout and stderr."""
    process = start(*args, **options)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("seconds", [0, 0.05, 0.1, 0.2])
    def test_in_the_first_moments_also_during_imports(self, tmp_path, number, seconds):
        data = write_csv(tmp_path / "x.csv", np.random.default_rng(0).standard_normal((300, 1500)))
        tell = 'entry._prepare_streams = lambda: (prepare(), os.write(1, b"."))'
        process = start("fit", data, "-m", 5, "-k", 20, before=tell)
        assert os.read(process.stdout.fileno(), 1) == b"."
        time.sleep(seconds)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (128 + number, INTERRUPTED)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_before_the_command_starts(self, number):
        """A signal while the flags are parsed is not taken for a refusal by the user."""
        kill = f"lambda *args: os.kill(os.getpid(), {int(number)})"
        replace = f'import gpower.cli.app; sys.modules["gpower.cli.app"].CommandFiles = {kill}'
        assert run("doctor", before=replace) == (128 + number, "", INTERRUPTED)

    def test_an_ignored_one_stays_ignored(self):
        """A shell starts commands in the background with SIGINT ignored."""
        kill = "entry._prepare_streams = lambda: (prepare(), os.kill(os.getpid(), signal.SIGINT))"
        code, _, errors = run("--version", before=f"signal.signal(signal.SIGINT, signal.SIG_IGN)\n{kill}")
        assert code == 0, errors

    def test_hardly_anything_is_imported_before_they_are_answered(self):
        """A signal before `main` runs finds no handler: modules that take long to import come later."""
        code = "import sys; before = set(sys.modules); import gpower.__main__; print(*set(sys.modules) - before)"
        env = {"PYTHONPATH": str(Path(gpower.__file__).parents[1])}
        imported = subprocess.run([sys.executable, "-S", "-c", code], env=env, stdout=PIPE, text=True, check=True)
        slow = {"typing", "importlib", "re", "contextlib", "pathlib", "numpy", "collections.abc"}
        assert slow.isdisjoint(imported.stdout.split())

    def test_during_a_slow_read(self, tmp_path):
        fifo = tmp_path / "x.csv"
        os.mkfifo(fifo)
        process = start("fit", fifo)
        with fifo.open("w") as pipe:
            pipe.write("a,b\n1,2\n")
            pipe.flush()
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, INTERRUPTED)

    def test_a_path_keeps_its_points_on_sigterm(self, data, tmp_path):
        before = """
from contextlib import contextmanager
from gpower.cli.console import OutputSink
@contextmanager
def counted(sink, what):
    yield lambda done, total: os.kill(os.getpid(), signal.SIGTERM) if done == 3 else None
OutputSink.show_progress_bar = counted
"""
        code, _, errors = run("path", data, "-k", "1,2,4,8,16", "-o", tmp_path / "out", before=before)
        assert code == 143, errors
        assert "Continue with the same command and --resume." in errors
        assert not SparsityPath.load(tmp_path / "out" / "path.npz").complete


class TestStreams:
    """Results are in their files before anything is printed, so that no reader of stdout can lose them."""

    @pytest.fixture
    def closed_pipe(self):
        """Return the writing end of a pipe that nobody reads."""
        reader, writer = os.pipe()
        os.close(reader)
        yield writer
        os.close(writer)

    @pytest.mark.parametrize("command", seeds(FILES, fast=1))
    def test_a_closed_pipe_ends_quietly_with_the_files_in_place(
        self, data, tmp_path, monkeypatch, closed_pipe, command
    ):
        if "--plot" in command:
            pytest.importorskip("matplotlib")
        monkeypatch.chdir(data.parent)
        assert run(*command.split(), stdout=closed_pipe) == (0, None, "")
        assert list_names(tmp_path / "r") == FILES[command]

    @pytest.mark.slow
    def test_scores_for_a_closed_pipe(self, gpower, data, tmp_path, closed_pipe):
        gpower.succeed("fit", data, "-k", 3, "-o", tmp_path)
        assert run("transform", tmp_path / "model.npz", data, stdout=closed_pipe) == (0, None, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
    def test_a_full_stdout_is_an_error_with_the_files_in_place(self, data, tmp_path):
        with open("/dev/full", "w") as full:
            code, _, errors = run("fit", data, "-k", 3, "-o", tmp_path / "r", stdout=full)
        assert (code, errors) == (1, "error: standard output: No space left on device.\n")
        assert list_names(tmp_path / "r") == RESULTS

    def test_a_closed_stderr_does_not_stop_the_fit(self, data, tmp_path, closed_pipe):
        command = ("fit", data, "-k", 3, "-v", "-o", tmp_path / "r")
        assert run(*command, stdout=closed_pipe, stderr=closed_pipe)[0] == 0
        assert list_names(tmp_path / "r") == RESULTS

    @pytest.mark.parametrize(
        ("command", "code", "said"),
        [
            ("fit - <&-", 1, "error: -: standard input is closed; give a file, or pipe the table into the command.\n"),
            ("fit x.csv -k 3 -o r >&-", 0, ""),
        ],
    )
    def test_closed_by_the_shell(self, data, tmp_path, command, code, said):
        shell = ["sh", "-c", f"{sys.executable} -m gpower {command}"]
        done = subprocess.run(shell, capture_output=True, text=True, check=False, cwd=data.parent)
        assert (done.returncode, done.stderr) == (code, said)
        assert (tmp_path / "r" / "model.npz").exists() == (code == 0)

    def test_an_encoding_without_the_letters_of_a_name(self, tmp_path):
        data = write_csv(tmp_path / "t.csv", [[1, 2], [5, 4], [9, 2]], "αb")
        encode = "sys.stdout.reconfigure(encoding='ascii', errors='strict')"
        code, output, errors = run("fit", data, "-m", 1, "-k", 1, before=encode)
        assert (code, errors) == (0, "")
        assert "? " in output


def test_a_missing_extra_is_named():
    said = "error: the command line needs typer and rich: pip install rich typer\n"
    assert run("--version", before="sys.modules['typer'] = None") == (1, "", said)
