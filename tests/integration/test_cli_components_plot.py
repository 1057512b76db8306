"""``gpower components`` counts components, and ``gpower plot`` draws every figure that the data allow."""

import csv

import numpy as np
import pytest
from tests.command_line import assert_refused, write_csv

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
def data(tmp_path):
    names = [*ODD, *EXPRESSION.feature_names[4:40]]
    return write_csv(tmp_path / "expression.csv", EXPRESSION.X[:, :40], names, [f"s{i}" for i in range(60)])


@pytest.fixture
def model(gpower, data, tmp_path):
    gpower.succeed("fit", data, "-m", "3", "-k", "6", "-o", tmp_path)
    return tmp_path / "model.npz"


ALWAYS = {"loadings", "scree", "overlap", "correlation_circle"}
OF_SAMPLES = {"outliers", "scores", "biplot", "pairs", "heatmap_1", "heatmap_2", "heatmap_3"}


def list_files(folder):
    files = list(folder.iterdir())
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    return {file.stem for file in files}


def test_all_pictures_with_odd_names(gpower, model, data, tmp_path):
    rows = [["ab"[i % 2], i / 7, f"p{i}x", "one"] for i in reversed(range(60))]
    samples = [f"s{i}" for i in reversed(range(60))]
    write_csv(tmp_path / "samples.csv", rows, ["batch", "$dose$", "person", "site"], samples)
    result = gpower.succeed("plot", model, data, "--metadata", tmp_path / "samples.csv", "-o", tmp_path / "figures")
    note = "note: scores are not coloured by person, site: colours show the first 12 columns"
    assert result.stderr.startswith(note)
    assert len(result.stderr.splitlines()) == 1
    assert list_files(tmp_path / "figures") == ALWAYS | OF_SAMPLES | {"metadata", "scores_by_batch", "scores_by_dose"}


def test_without_metadata_and_in_another_format(gpower, model, data, tmp_path):
    gpower.succeed("plot", model, data, "-o", tmp_path / "figures", "--suffix", "svg")
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {f"{name}.svg" for name in ALWAYS | OF_SAMPLES}


def test_a_covariance_has_no_samples(gpower, pitprops, tmp_path):
    GPower(2, cardinality=4, covariance="precomputed").fit(PITPROPS.correlation).save(tmp_path / "m.npz")
    result = gpower.succeed("plot", tmp_path / "m.npz", pitprops, "-o", tmp_path / "figures")
    assert list_files(tmp_path / "figures") == ALWAYS
    result = gpower("plot", tmp_path / "m.npz", pitprops, "--metadata", pitprops)
    assert_refused(result, "DATA is a covariance and has none", n_notes=1)


def test_without_any_picture_no_folder_is_left(gpower, model, data, tmp_path, monkeypatch):
    def refuse(*_):
        raise ValueError("no pen.")

    monkeypatch.setattr("gpower.plotting.save_figure", refuse)
    result = gpower("plot", model, data, "-o", tmp_path / "figures")
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


def test_mistakes_are_one_line_errors(gpower, model, data, tmp_path):
    samples = [f"s{i}" for i in range(60)]
    few = write_csv(tmp_path / "few.csv", np.eye(7), "abcdefg", samples[:7])
    twice = write_csv(tmp_path / "twice.csv", np.eye(61, 2), "ab", [*samples, "s3"])
    other = write_csv(tmp_path / "other.csv", np.eye(7))
    unmatched = "53 of 60 samples have no row (s7, s8, s9, …), and 0 of 7 rows no sample"
    for arguments, *words in (
        ((tmp_path / "none.npz", data), "There is no model file"),
        ((model, data, "--metadata", few), unmatched, "use --metadata-by-order"),
        ((model, data, "--metadata", twice), "the sample 's3' has two rows, 5 and 62; keep one"),
        ((model, other), "X has 7 features, but GPower is expecting 40 features"),
        ((model, data, "--suffix", "gif"), "--suffix gif is not known"),
    ):
        assert_refused(gpower("plot", *arguments, "-o", tmp_path / "f"), *words)
        assert not (tmp_path / "f").exists()  # no empty folder is left


@pytest.fixture
def expression(tmp_path):
    return write_csv(tmp_path / "genes.csv", EXPRESSION.X, EXPRESSION.feature_names)


def test_small_variances_are_plain_decimals(gpower, tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 4)) * [1000, 1, 1, 1]
    given = ["-k", "1", "-m", "2", "--n-permutations", "39"]
    rows = gpower.succeed("components", write_csv(tmp_path / "t.csv", X), *given).stdout.splitlines()
    shares = next(row.split()[1:3] for row in rows if row.split()[:1] == ["2"])
    assert all(share.startswith("0.000") and "e" not in share for share in shares)


def test_components_are_counted(gpower, expression, tmp_path):
    args = ("components", expression, "-k", "6", "-m", "4", "--n-permutations", "39")
    result = gpower.succeed(*args, "-o", tmp_path, "--plot", tmp_path / "c.png")
    evidence = "explain more than chance at the level 0.05, by up to 39 permuted tables"
    assert f"3 components {evidence}.\nThe tests stop at the first that fails: later ones" in result.stdout
    assert "Variances are of quick fits, as for permuted tables; those of gpower fit differ" in result.stdout
    fewer = gpower("components", expression, "-k", "6", "--max", "2", "--n-permutations", "39")
    assert f"All 2 components that were tested {evidence}; there may be more: test them with --max 4" in fewer.stdout
    assert "The tests stop" not in fewer.stdout
    assert (tmp_path / "c.png").stat().st_size > 0
    test = component_test(EXPRESSION.X, 4, cardinality=6, n_permutations=39)
    with (tmp_path / "components.csv").open() as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose([float(row["p_value"]) for row in rows], test.p_values)
    np.testing.assert_allclose([float(row["variance"]) for row in rows], test.variance)
    answer = gpower.read_json(*args)
    assert answer["n_components"] == 3
    np.testing.assert_allclose(answer["p_value"], test.p_values)


def test_components_are_counted_under_rules_on_the_variables(gpower, expression, tmp_path):
    names = EXPRESSION.feature_names
    groups = [f"pair {j // 2}" for j in range(len(names))]
    (tmp_path / "pairs.csv").write_text("".join(map("{},{}\n".format, names, groups)))
    flags = ("-k", "3", "-m", "2", "--n-permutations", "39")
    rules = ("--groups", tmp_path / "pairs.csv", "--exclude", names[0], "--memory", "1GB")
    found = gpower.read_json("components", expression, *flags, *rules)["variance"]
    test = component_test(EXPRESSION.X, 2, n_permutations=39, cardinality=3, groups=groups, exclude=[0])
    np.testing.assert_allclose(found, test.variance)
    assert not np.allclose(found, component_test(EXPRESSION.X, 2, n_permutations=39, cardinality=3).variance)


def test_fit_takes_the_number_from_the_data(gpower, expression):
    assert gpower.read_json("fit", expression, "-m", "auto", "-k", "6")["cardinality_"] == [6, 6, 6]
