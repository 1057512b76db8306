"""Fixtures of the unit tests."""

import signal

import pytest


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text or bytes into a file and returns its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def reload(tmp_path):
    """Return a function that saves an object and returns the one loaded from its file."""

    def save_and_load(saved):
        saved.save(tmp_path / "saved.npz")
        return type(saved).load(tmp_path / "saved.npz")

    return save_and_load


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that sends Ctrl-C at some call of a function, and returns the list of its calls."""

    def interrupt_call(owner, name, number):
        function, calls = getattr(owner, name), []

        def count(*arguments):
            calls.append(arguments)
            if len(calls) == number:
                signal.raise_signal(signal.SIGINT)
            return function(*arguments)

        monkeypatch.setattr(owner, name, count)
        return calls

    return interrupt_call
