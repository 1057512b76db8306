"""An error inside a command is one sentence that names the file; --debug prints the traceback."""

import numpy as np
import pytest
from tests.command_line import assert_refused

from gpower import GPower
from gpower.datasets import load_planted_expression

EXPRESSION = load_planted_expression()


def test_a_report_of_a_model_with_an_empty_array(gpower, data, tmp_path):
    pytest.importorskip("jinja2")
    model = tmp_path / "m.npz"
    GPower(2, cardinality=3).fit(EXPRESSION.X).save(model)
    with np.load(model) as archive:
        np.savez(model, **dict(archive) | {"overlap_": np.zeros(0)})
    result = gpower("report", model, data, "-o", tmp_path / "r.html")
    assert_refused(result, str(model), "is damaged: overlap_ has the shape (0,)")


def test_a_checkpoint_on_a_loop_of_links(gpower, data, tmp_path):
    (tmp_path / "c.npz").symlink_to(tmp_path / "c.npz")
    assert_refused(gpower("fit", data, "-k", 3, "--checkpoint", tmp_path / "c.npz"), "c.npz: this is a loop of links")


def test_the_traceback_is_printed_on_demand(gpower, data, monkeypatch):
    def fail(*args, **options):
        raise KeyError("shape")

    monkeypatch.setattr("gpower.cli.commands.fit.load_table", fail)
    result = gpower("fit", data)
    assert_refused(result, str(data), "the command failed (KeyError: 'shape'); add --debug to print the details.")
    detailed = gpower("fit", data, "--debug").stderr
    assert "in fail" in detailed
    assert detailed.endswith(result.stderr)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.where(EXPRESSION.X > 2, np.inf, EXPRESSION.X), "contains infinity"),
        (EXPRESSION.X[:1], "a single sample has no variance"),
    ],
)
def test_an_error_about_the_data_names_the_file(gpower, tmp_path, X, message):
    np.save(tmp_path / "x.npy", X)
    assert_refused(gpower("fit", tmp_path / "x.npy", "-k", 3), f"error: {tmp_path / 'x.npy'}: ", message)


def test_an_error_about_groups_names_their_file(gpower, data, tmp_path):
    (tmp_path / "g.csv").write_text("gene,group\nZZ,a\n")
    assert_refused(gpower("fit", data, "-k", 3, "--groups", tmp_path / "g.csv"), str(data), "g.csv", "names 'ZZ'")


def test_a_table_without_variance(gpower, tmp_path):
    np.savetxt(tmp_path / "x.csv", np.zeros((5, 3)), delimiter=",", header="a,b,c", comments="")
    assert gpower("components", tmp_path / "x.csv", "-k", 1).exit_code == 0
