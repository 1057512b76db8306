"""Covariates and batches on the command line: columns of --metadata, removed by every command that reads the data."""

import numpy as np
import pytest
from tests.command_line import write_csv

from gpower import GPower, SparsityPath
from gpower.datasets import load_planted_expression, read_table

for package in ("typer", "rich", "matplotlib"):
    pytest.importorskip(package)

DATA = load_planted_expression()
RNG = np.random.default_rng(0)
PLATE = np.repeat(["p1", "p2", "p3"], 20)
AGE = RNG.uniform(20, 80, 60).round(1)
SEX = RNG.choice(["f", "m"], 60)
X = DATA.X[:, :60] + RNG.normal(0, 3, (3, 60))[np.repeat(range(3), 20)] + 0.02 * np.outer(AGE, RNG.normal(size=60))
COVARIATES = {"age": AGE, "sex": SEX}
REMOVED = ["--covariates", "age,sex", "--batch", "plate"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write the table and, in another order of the samples, the metadata."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "genes.csv", X, DATA.feature_names[:60], DATA.sample_names)
    metadata = np.column_stack([AGE.astype(object), SEX, PLATE])
    write_csv(tmp_path / "samples.csv", metadata[::-1], ["age", "sex", "plate"], DATA.sample_names[::-1])
    return tmp_path


def test_fit_and_transform_remove_columns_of_the_metadata(gpower, files):
    done = gpower.succeed("fit", "genes.csv", "-k", "6,4", "--metadata", "samples.csv", *REMOVED, "-o", "results")
    expected = GPower(2, cardinality=[6, 4]).fit(X, covariates=COVARIATES, batch=PLATE)
    share = f"{100 * expected.covariate_variance_ratio_:.1f} %"
    assert f"variance without the effect of age, sex, batch, which was {share} of the whole" in done.stdout
    scores = expected.transform(X, covariates=COVARIATES, batch=PLATE)
    np.testing.assert_allclose(read_table(files / "results" / "scores.csv").X, scores, atol=1e-8)
    model = "results/model.npz"
    done = gpower.succeed(
        "transform", model, "genes.csv", "--metadata", "samples.csv", "--batch", "plate", "-o", "new.csv"
    )
    np.testing.assert_allclose(read_table(files / "new.csv").X, scores, atol=1e-8)


@pytest.mark.parametrize(
    "command", ["fit genes.csv -k 20", "plot m.npz genes.csv -o figures", "report m.npz genes.csv"]
)
def test_a_batch_that_explains_components_is_named(gpower, files, command):
    GPower(2, cardinality=20).fit(X).save("m.npz")
    note = "may be a batch; if so, remove it with --batch."
    notes = gpower.succeed(*command.split(), "--metadata", "samples.csv").stderr
    assert "with 'plate' (strength 0." in notes
    assert note in notes


def test_a_model_asks_for_its_covariates(gpower, files):
    GPower(2, cardinality=4).fit(X, covariates={"age": AGE}, batch=PLATE).save("model.npz")
    done = gpower("transform", "model.npz", "genes.csv")
    assert "The model was fitted without the effect of age, batch; give the file" in done.stderr
    done = gpower("transform", "model.npz", "genes.csv", "--metadata", "samples.csv")
    assert "no column 'batch' in age, sex, plate; name the column of the batches with --batch" in done.stderr
    few = "\n".join((files / "genes.csv").read_text().split("\n")[:3])
    (files / "few.csv").write_text(few)  # two ages would be taken for categories without the model
    rows = [f"{name},{age},p1" for name, age in zip(DATA.sample_names[:2], (30, 40), strict=True)]
    (files / "few_samples.csv").write_text("\n".join(["id,age,batch", *rows]))
    done = gpower.succeed("transform", "model.npz", "few.csv", "--metadata", "few_samples.csv", "-o", "scores.csv")
    expected = GPower.load("model.npz").transform(X[:2], covariates={"age": [30.0, 40.0]}, batch=["p1", "p1"])
    np.testing.assert_allclose(read_table(files / "scores.csv").X, expected, atol=1e-8)


def test_path_components_and_automatic_choices_remove_them(gpower, files):
    given = ["--metadata", "samples.csv", *REMOVED]
    gpower.succeed("path", "genes.csv", "-k", "3,6", *given, "-o", "path")
    path = SparsityPath.load(files / "path" / "path.npz")
    fitted = GPower(1, cardinality=6).fit(X, covariates=COVARIATES, batch=PLATE)
    np.testing.assert_allclose(path[1].components_, fitted.components_, atol=1e-8)
    test = gpower.read_json("components", "genes.csv", "-k", 6, "--max", 2, "--n-permutations", 39, *given)
    assert test["variance"][0] == pytest.approx(fitted.explained_variance_[0], rel=1e-2)
    chosen = gpower.read_json("fit", "genes.csv", "-m", 1, "-k", "auto", "--grid", "6", *given)
    assert chosen["covariates_names_"] == ["age", "sex", "sex", "batch", "batch", "batch"]


def test_covariates_of_a_covariance_are_its_variables(gpower, files):
    names = [*DATA.feature_names[:8], "age"]
    write_csv(files / "S.csv", np.cov(np.column_stack([X[:, :8], AGE]).T), names, names)
    found = gpower.read_json("fit", "S.csv", "--covariance", "-m", 1, "-k", 3, "--covariates", "age")["components_"]
    expected = GPower(1, cardinality=3).fit(X[:, :8], covariates=AGE)
    np.testing.assert_allclose(found[0][:8], expected.components_[0], atol=1e-7)


def test_pictures_and_reports_show_the_rest(gpower, files):
    for package in ("bokeh", "jinja2"):
        pytest.importorskip(package)
    GPower(2, cardinality=4).fit(X, covariates=COVARIATES, batch=PLATE).save("model.npz")
    given = ["model.npz", "genes.csv", "--metadata", "samples.csv", "--batch", "plate"]
    gpower.succeed("plot", *given, "-o", "figures", "--suffix", "svg")
    assert (files / "figures" / "scores_by_plate.svg").exists()
    gpower.succeed("report", "genes.csv", "-k", "4,4", *given[2:], "--covariates", "age,sex", "--path", "--certify")
    page = (files / "report.html").read_text(encoding="utf-8")
    assert "hat a linear regression on age, sex, batch predicts of each variable was removed" in page
    gpower.succeed("report", *given, "--test")
