"""SIGINT and SIGTERM, also during the imports and before the command starts: 130 or 143, and one word."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gpower

#: Start of the interpreter itself, in which no code of the package can answer a signal.
WAIT_FOR_MAIN = """
import os, sys
import gpower.__main__ as entry
sys.argv = ["gpower", *sys.argv[1:]]
prepare = entry._prepare_streams
entry._prepare_streams = lambda: (prepare(), os.write(1, b"."))
entry.main()
"""


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 1500))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", fmt="%.4f")
    return tmp_path / "x.csv"


def run_until(seconds, number, *args):
    """Run the command, send it a signal some seconds after it starts, and return its exit code and stderr."""
    command = [sys.executable, "-c", WAIT_FOR_MAIN, *map(str, args)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert os.read(process.stdout.fileno(), 1) == b"."
    time.sleep(seconds)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0, 0.05, 0.1, 0.2])
def test_a_signal_in_the_first_moments(data, number, seconds):
    assert run_until(seconds, number, "fit", data, "-m", 5, "-k", 20) == (128 + number, "Interrupted.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_command_starts(number):
    """A signal while the flags are parsed is not taken for a refusal by the user."""
    code = f"""
import os, sys
from gpower.cli import app, command_files
command_files.CommandFiles.from_values = lambda *args: os.kill(os.getpid(), {int(number)})
sys.argv = ["gpower", "doctor"]
from gpower.__main__ import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (128 + number, "Interrupted.\n", "")


def test_an_ignored_signal_stays_ignored(tmp_path):
    """A shell starts commands in the background with SIGINT ignored."""
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from gpower.__main__ import main
sys.argv = ["gpower", "--version"]
import gpower.__main__ as entry
prepare = entry._prepare_streams
entry._prepare_streams = lambda: (prepare(), os.kill(os.getpid(), signal.SIGINT))
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_hardly_anything_is_imported_before_signals_are_answered():
    """A signal before `main` runs finds no handler: modules that take long to import come later."""
    code = "import sys; before = set(sys.modules); import gpower.__main__; print(*set(sys.modules) - before)"
    source = Path(gpower.__file__).parents[1]
    command = [sys.executable, "-S", "-c", code]
    imported = subprocess.run(command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True)
    slow = {"typing", "importlib", "re", "contextlib", "pathlib", "numpy", "collections.abc"}
    assert slow.isdisjoint(imported.stdout.split())
