"""``gpower components`` counts components, and ``gpower plot`` draws every figure that the data allow."""

import numpy as np
import pytest
from tests.command_line import assert_refused, read_records, write_csv

from gpower import GPower, component_test
from gpower.datasets import load_pitprops, load_planted_expression

matplotlib = pytest.importorskip("matplotlib")

EXPRESSION, PITPROPS = load_planted_expression(), load_pitprops()
ODD = (
    "cost_in_$x_per_$y",
    "two\nlines",
    "_hidden",
    "a name of sixty characters, as those of pathways of genes are"[:60],
)


@pytest.fixture
def odd(tmp_path):
    names = [*ODD, *EXPRESSION.feature_names[4:40]]
    return write_csv(tmp_path / "expression.csv", EXPRESSION.X[:, :40], names, [f"s{i}" for i in range(60)])


@pytest.fixture
def model(gpower, odd, tmp_path):
    gpower.succeed("fit", odd, "-m", "3", "-k", "6", "-o", tmp_path)
    return tmp_path / "model.npz"


ALWAYS = {"loadings", "scree", "overlap", "correlation_circle"}
OF_SAMPLES = {"outliers", "scores", "biplot", "pairs", "heatmap_1", "heatmap_2", "heatmap_3"}


def test_all_pictures_with_odd_names(gpower, model, odd, tmp_path):
    rows = [["ab"[i % 2], i / 7, f"p{i}x", "one"] for i in reversed(range(60))]
    samples = [f"s{i}" for i in reversed(range(60))]
    write_csv(tmp_path / "samples.csv", rows, ["batch", "$dose$", "person", "site"], samples)
    result = gpower.succeed("plot", model, odd, "--metadata", tmp_path / "samples.csv", "-o", tmp_path / "figures")
    note = "note: scores are not coloured by person, site: colours show the first 12 columns"
    assert result.stderr.startswith(note)
    assert len(result.stderr.splitlines()) == 1
    files = {file.stem: file.read_bytes() for file in (tmp_path / "figures").iterdir()}
    assert set(files) == ALWAYS | OF_SAMPLES | {"metadata", "scores_by_batch", "scores_by_dose"}
    assert all(content.startswith(b"\x89PNG") for content in files.values())


def test_a_covariance_has_no_samples(gpower, pitprops, tmp_path):
    GPower(2, cardinality=4, covariance="precomputed").fit(PITPROPS.correlation).save(tmp_path / "m.npz")
    gpower.succeed("plot", tmp_path / "m.npz", pitprops, "-o", tmp_path / "figures", "--suffix", "svg")
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {f"{name}.svg" for name in ALWAYS}
    result = gpower("plot", tmp_path / "m.npz", pitprops, "--metadata", pitprops)
    assert_refused(result, "DATA is a covariance and has none", n_notes=1)


def test_without_any_picture_no_folder_is_left(gpower, model, odd, tmp_path, monkeypatch):
    def refuse(*_):
        raise ValueError("no pen.")

    monkeypatch.setattr("gpower.plotting.save_figure", refuse)
    result = gpower("plot", model, odd, "-o", tmp_path / "figures")
    assert_refused(result, "No picture could be drawn", n_notes=len(result.stderr.splitlines()) - 1)
    assert not (tmp_path / "figures").exists()


def test_a_covariance_is_matched_by_name(gpower, pitprops, tmp_path):
    gpower.succeed("fit", pitprops, "--covariance", "-k", "4", "-o", tmp_path / "fit")
    model, turned, pictures = tmp_path / "fit" / "model.npz", tmp_path / "turned.csv", []
    names = PITPROPS.feature_names[::-1]
    write_csv(turned, PITPROPS.correlation[::-1, ::-1], names, names)
    for file in (pitprops, turned):
        gpower.succeed("plot", model, file, "-o", tmp_path / file.stem)
        pictures.append((tmp_path / file.stem / "correlation_circle.png").read_bytes())
    assert pictures[0] == pictures[1]
    turned.write_text(turned.read_text().replace(names[0], "unheard"))
    assert "1 of the model's 13 variables are not in it" in gpower("plot", model, turned).stderr


def test_small_variances_are_plain_decimals(gpower, tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 4)) * [1000, 1, 1, 1]
    given = ["-k", "1", "-m", "2", "--n-permutations", "39"]
    rows = gpower.succeed("components", write_csv(tmp_path / "t.csv", X), *given).stdout.splitlines()
    shares = next(row.split()[1:3] for row in rows if row.split()[:1] == ["2"])
    assert all(share.startswith("0.000") and "e" not in share for share in shares)


def test_components_are_counted(gpower, data, tmp_path):
    args = ("components", data, "-k", "6", "-m", "4", "--n-permutations", "39")
    result = gpower.succeed(*args, "-o", tmp_path, "--plot", tmp_path / "c.png")
    evidence = "explain more than chance at the level 0.05, by up to 39 permuted tables"
    assert f"3 components {evidence}.\nThe tests stop at the first that fails: later ones" in result.stdout
    assert "Variances are of quick fits, as for permuted tables; those of gpower fit differ" in result.stdout
    fewer = gpower("components", data, "-k", "6", "--max", "2", "--n-permutations", "39")
    assert f"All 2 components that were tested {evidence}; there may be more: test them with --max 4" in fewer.stdout
    assert "The tests stop" not in fewer.stdout
    assert (tmp_path / "c.png").stat().st_size > 0
    test = component_test(EXPRESSION.X, 4, cardinality=6, n_permutations=39)
    rows = read_records(tmp_path / "components.csv")
    np.testing.assert_allclose([float(row["p_value"]) for row in rows], test.p_values)
    np.testing.assert_allclose([float(row["variance"]) for row in rows], test.variance)
    answer = gpower.read_json(*args)
    assert answer["n_components"] == 3
    np.testing.assert_allclose(answer["p_value"], test.p_values)


def test_a_table_without_variance(gpower, tmp_path):
    np.savetxt(tmp_path / "x.csv", np.zeros((5, 3)), delimiter=",", header="a,b,c", comments="")
    gpower.succeed("components", tmp_path / "x.csv", "-k", 1)
    assert "no active variable" in gpower.succeed("fit", tmp_path / "x.csv", "-k", 1).stdout
