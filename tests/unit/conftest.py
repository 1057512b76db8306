"""Fixtures of the unit tests."""

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
