"""No command writes over a file that it reads, nor two results into one file: refused before the work starts."""

import pytest
from tests.command_line import assert_refused, write_csv

from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()


@pytest.fixture(autouse=True)
def nothing_is_read(monkeypatch):
    """Fail if a command gets as far as reading its table."""
    for module in ("fit", "path", "compare", "components", "report"):
        monkeypatch.setattr(f"gpower.cli.commands.{module}.load_table", None)


@pytest.fixture
def refuse(gpower, tmp_path, monkeypatch):
    """Return a function that runs a command in a folder, and checks that it is refused and changes no file."""
    monkeypatch.chdir(tmp_path)

    def read_files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def run(command, message):
        before = read_files()
        assert_refused(gpower(*command.split()), message)
        assert read_files() == before

    return run


@pytest.mark.parametrize(
    ("table", "command"),
    [
        ("scores.csv", "fit scores.csv -k 3 -o ."),
        ("path.csv", "path path.csv -k 3 -o ."),
        ("path.csv", "path path.csv -k 3"),  # an interruption would write it into the current folder
        ("comparison.csv", "compare comparison.csv -k 3 -o ."),
        ("components.csv", "components components.csv -k 3 -o ."),
        ("genes.csv", "report genes.csv -k 3 -o genes.csv"),
        ("genes.csv", "fit genes.csv -k 3 --checkpoint genes.csv"),
        ("scores.csv", "fit scores.csv -k 3 -o link"),
        ("genes.csv", "transform m.npz genes.csv -o genes.csv"),
        ("genes.csv", "transform m.npz genes.csv -o picture.png"),
        *(
            ("genes.csv", f"{name} genes.csv -k 3 --plot picture.png")
            for name in ("fit", "path", "compare", "components")
        ),
        ("loadings.csv", "fit other.csv -k 3 --groups loadings.csv -o ."),
        ("loadings.csv", "fit other.csv -k 3 --weights loadings.csv -o ."),
        ("groups.html", "report other.csv -k 3 --groups groups.html -o groups.html"),
        ("scores.csv", "fit other.csv -k 3 --platform scores.csv -o ."),
    ],
)
def test_what_a_command_reads_is_not_replaced(refuse, tmp_path, table, command):
    """`link` is a link to the folder, and `picture.png` one to the table."""
    for name in (table, "other.csv"):
        write_csv(tmp_path / name, EXPRESSION.X, EXPRESSION.feature_names)
    (tmp_path / "link").symlink_to(tmp_path)
    target = "picture.png" if "picture.png" in command else table
    if target != table:
        (tmp_path / target).symlink_to(tmp_path / table)
    refuse(command, f"{target}: this is what the command reads")


def test_a_checkpoint_and_a_result_in_one_file(refuse, data):
    message = "model.npz: the command would write two results into this file"
    refuse(f"fit {data} -k 3 --checkpoint r/model.npz -o r", message)


def test_a_file_inside_a_store(refuse, tmp_path):
    (tmp_path / "x.zarr").mkdir()
    refuse("fit x.zarr -k 3 -o x.zarr", "x.zarr")
    assert list((tmp_path / "x.zarr").iterdir()) == []
