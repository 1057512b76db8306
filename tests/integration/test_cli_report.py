"""``gpower report`` from a table or a saved model, with its optional parts."""

import html
import re

import numpy as np
import pytest
from tests.command_line import write_csv

from gpower import GPower, GPowerCV
from gpower.datasets import load_planted_expression

for package in ("typer", "rich", "bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(package)

DATA = load_planted_expression()
PATIENTS = [f"Patient-{name}" for name in DATA.sample_names]


@pytest.fixture
def files(tmp_path, gmt, monkeypatch):
    """Write a table, metadata, gene sets and the model of the table into the current folder."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "genes.csv", DATA.X, DATA.feature_names, PATIENTS)
    write_csv(tmp_path / "samples.csv", [["ba"[i % 2], 20 + i] for i in range(60)], ["batch", "age"], PATIENTS)
    return tmp_path


def page(files):
    return (files / "report.html").read_text(encoding="utf-8")


def test_a_table(gpower, files):
    done = gpower.succeed("report", files / "genes.csv", "-k", "8,6,5", "-o", files / "report.html")
    address = (files / "report.html").as_uri()
    assert (done.stdout, done.stderr) == (f"Wrote {files / 'report.html'}; open it in any browser: {address}\n", "")
    text = page(files)
    for named in GPower(3, cardinality=[8, 6, 5]).fit(DATA.X).loadings(DATA.feature_names):
        for name, loading in named.items():
            assert name in text
            assert f'data-v="{loading!r}"' in text
    assert PATIENTS[0] in text
    assert 'id="path"' not in text


def test_the_grid_and_the_folds_of_the_choice(gpower, files):
    given = ["-m", 2, "-k", "auto", "--grid", "4,9", "--folds", 3]
    gpower.succeed("fit", "genes.csv", *given, "-o", "results")
    model = GPowerCV(2, cardinalities=[4, 9], cv=3).fit(DATA.X)
    choice = model.cardinality_choice_[1:]
    for source in (["genes.csv", *given], ["results/model.npz", "genes.csv"]):
        notes = gpower.succeed("report", *source).stderr
        assert choice in page(files)
        is_chosen_now = source[0] == "genes.csv"
        assert (choice in notes) == is_chosen_now
        assert ('<section id="choice"' in page(files)) == is_chosen_now  # its picture
        assert all(name in page(files) for named in model.loadings(DATA.feature_names) for name in named)


def test_everything(gpower, files):
    asked = ["--path", "--stability", "--test", "--certify", "--title", "All & more"]
    given = ["--metadata", "samples.csv", "--gmt", "sets.gmt"]
    gpower.succeed("report", "genes.csv", "-m", 2, "-k", 6, *asked, *given)
    for part in ("path", "stability", "metadata", "scree", "outliers", "overlap"):
        assert f'<section id="{part}"' in page(files)
    for words in ("<title>All &amp; more</title>", "Of the best possible", "GROWTH</bdi>", "By chance", ">batch<"):
        assert words in page(files)


def test_what_casts_doubt_is_on_the_page_and_in_the_terminal(gpower, files):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 240)) + rng.standard_normal((30, 1))
    X[:, 7] *= 1000  # the same warning of the search and of the fit
    write_csv(files / "genes.csv", X)
    asked = ["-m", 2, "-k", "auto", "--grid", "1,120", "--folds", 3, "--stability", "--test"]
    done = gpower.succeed("report", files / "genes.csv", *asked, "-o", files / "report.html")
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines() if " chosen by cross-val" not in line]
    doubts = [html.unescape(doubt) for doubt in re.findall("<li><bdi>(.*?)</bdi></li>", page(files))]
    assert sorted(notes) == sorted(doubt.replace("\N{NO-BREAK SPACE}", " ") for doubt in doubts)
    for words in ("120 variables are too many to read", "unstable", "may be chance", "have nearly all of the weight"):
        assert sum(words in note for note in notes) == 1, (words, notes)


def test_metadata_of_other_samples_are_matched_if_asked(gpower, files):
    foreign = (files / "samples.csv").read_text().replace("Patient", "Person")
    (files / "samples.csv").write_text(foreign)
    given = ["report", "genes.csv", "-k", "6", "--metadata", "samples.csv"]
    assert gpower.succeed(*given, "--metadata-by-order").stderr == ""
    assert "<title>Sparse principal components of genes.csv</title>" in page(files)
    assert '<section id="metadata"' in page(files)


def test_declared_columns_are_groups(gpower, files):
    rows = [f"{name},{i % 10},w{i}" for i, name in enumerate(PATIENTS)]
    (files / "samples.csv").write_text("\n".join(["name,label,word", *rows]))
    given = ["-k", "6", "--metadata", files / "samples.csv", "-o", files / "report.html"]
    for extra, has_groups in (((), False), (("--categorical", "label"), True)):
        notes = gpower.succeed("report", files / "genes.csv", *given, *extra).stderr
        assert ("if they are labels of groups, add --categorical label." in notes) != has_groups
        assert ("<td>Kruskal–Wallis</td>" in page(files)) == has_groups
        assert ("<td>Spearman</td>" in page(files)) != has_groups
        assert "Not tested, as each sample has a word of its own: <bdi>word</bdi>." in page(files)
    fit = ("fit", files / "genes.csv", "-k", "6", "--metadata", files / "samples.csv", "--covariates", "label")
    levels = [gpower.read_json(*fit, *extra)["covariates_levels_"] for extra in ((), ("--categorical", "label"))]
    assert levels == [[""], [str(i) for i in range(10)]]


@pytest.mark.parametrize(
    "model", [GPower(2, cardinality=5, constraint="disjoint"), GPowerCV(2, cardinalities=[3, 5], cv=3)]
)
def test_a_saved_model(gpower, files, model):
    model.fit(DATA.X).save("model.npz")
    gpower.succeed("report", "model.npz", "genes.csv", "--certify", "--path")
    assert "Of the best possible" in page(files)
    assert 'id="path"' in page(files)


def test_a_covariance(gpower, files):
    write_csv(files / "S.csv", np.corrcoef(DATA.X[:, :10].T))
    gpower.succeed("report", "S.csv", "--covariance", "-m", 2, "-k", 3)
    assert 'id="samples"' not in page(files)


@pytest.mark.parametrize("flag", ["--no-scores", "--anonymise"])
def test_nothing_reveals_patients(gpower, files, flag):
    """A note quotes a sample that the metadata lack; another note about the table quotes none."""
    lines = (files / "samples.csv").read_text().splitlines()
    (files / "samples.csv").write_text("\n".join(lines[:-1]) + "\n")
    asked = ["report", "genes.csv", "-k", 5, "--metadata", "samples.csv"]
    assert f"1 of 60 samples have no row ({PATIENTS[-1]})" in gpower(*asked).stderr
    assert f"have no row ({PATIENTS[-1]})" in page(files)
    gpower.succeed(*asked, flag)
    assert "Patient-" not in page(files)
    assert "quotes samples and is left out here" in page(files)
