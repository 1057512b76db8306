"""No command writes over a file that it reads, nor two results into one file: refused before the work starts."""

import pytest
from tests.command_line import assert_refused

from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()


@pytest.fixture(autouse=True)
def nothing_is_read(monkeypatch):
    """Fail if a command gets as far as reading its table."""
    for module in ("fit", "path", "compare", "components", "report"):
        monkeypatch.setattr(f"gpower.cli.commands.{module}.load_table", None)


@pytest.fixture
def refuse(gpower, tmp_path):
    """Return a function that runs a command, checks that it changes no file, and returns its one line of error."""

    def read_files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def run(*args):
        before = read_files()
        result = gpower(*args)
        assert_refused(result)
        assert read_files() == before
        return result.stderr

    return run


def write_groups(path):
    path.write_text("".join(f"{name},a\n" for name in EXPRESSION.feature_names))
    return path


@pytest.mark.parametrize("flag", ["--groups", "--weights"])
def test_a_file_of_variables(refuse, data, tmp_path, flag):
    file = write_groups(tmp_path / "loadings.csv")
    error = refuse("fit", data, "-k", 3, flag, file, "-o", tmp_path)
    assert "loadings.csv: this is what the command reads" in error


def test_the_groups_of_a_report(refuse, data, tmp_path):
    file = write_groups(tmp_path / "rg.html")
    error = refuse("report", data, "-k", 3, "--groups", file, "-o", file)
    assert "rg.html: this is what the command reads" in error


def test_the_platform_of_a_series(refuse, data, tmp_path):
    file = write_groups(tmp_path / "scores.csv")
    assert "scores.csv: this is" in refuse("fit", data, "-k", 3, "--platform", file, "-o", tmp_path)


@pytest.mark.parametrize("command", ["fit", "path", "compare", "components"])
def test_a_picture_through_a_link_to_the_data(refuse, data, tmp_path, command):
    (tmp_path / "x.png").symlink_to(data)
    error = refuse(command, data, "-k", 3, "--plot", tmp_path / "x.png")
    assert "x.png: this is what the command reads" in error


def test_results_through_a_link_to_the_folder(refuse, data, tmp_path):
    data = data.rename(tmp_path / "scores.csv")
    (tmp_path / "link").symlink_to(tmp_path)
    assert "scores.csv: this is" in refuse("fit", data, "-k", 3, "-o", tmp_path / "link")


def test_the_table_of_a_component_test(refuse, data, tmp_path):
    data = data.rename(tmp_path / "components.csv")
    assert "components.csv: this is" in refuse("components", data, "-k", 3, "-o", tmp_path)


def test_an_interrupted_path_without_a_folder(refuse, data, tmp_path, monkeypatch):
    """An interruption would write path.csv into the current folder."""
    data = data.rename(tmp_path / "path.csv")
    monkeypatch.chdir(tmp_path)
    assert "path.csv: this is" in refuse("path", "path.csv", "-k", 3)


def test_pictures_over_the_metadata(refuse, data, tmp_path):
    metadata = write_groups(tmp_path / "scores.png")
    assert "scores.png: this is" in refuse("plot", tmp_path / "m.npz", data, "--metadata", metadata, "-o", tmp_path)


def test_scores_over_the_model(refuse, data, tmp_path):
    (tmp_path / "s.csv").symlink_to(data)
    assert "s.csv: this is" in refuse("transform", tmp_path / "m.npz", data, "-o", tmp_path / "s.csv")


def test_a_checkpoint_and_a_result_in_one_file(refuse, data, tmp_path):
    checkpoint = tmp_path / "r" / "model.npz"
    error = refuse("fit", data, "-k", 3, "--checkpoint", checkpoint, "-o", tmp_path / "r")
    assert "model.npz: the command would write two results into this file" in error


def test_a_file_inside_a_store(refuse, tmp_path):
    store = tmp_path / "x.zarr"
    store.mkdir()
    assert "x.zarr" in refuse("fit", store, "-k", 3, "-o", store)
    assert list(store.iterdir()) == []
