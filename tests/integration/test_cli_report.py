"""``gpower report`` from a table or a saved model, with its optional parts."""

import html
import re

import numpy as np
import pytest
from tests.command_line import assert_refused, write_csv

from gpower import GPower, GPowerCV
from gpower.datasets import load_planted_expression

for package in ("typer", "rich", "bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(package)

DATA = load_planted_expression()
PATIENTS = [f"Patient-{name}" for name in DATA.sample_names]


@pytest.fixture
def files(tmp_path, gmt):
    """Write a table, metadata, gene sets and the model of the table."""
    write_csv(tmp_path / "genes.csv", DATA.X, DATA.feature_names, PATIENTS)
    metadata_rows = [f"{name},{'a' if i % 2 else 'b'},{20 + i}" for i, name in enumerate(PATIENTS)]
    (tmp_path / "samples.csv").write_text("\n".join(["sample,batch,age", *metadata_rows]) + "\n")
    return tmp_path


def page(files):
    return (files / "report.html").read_text(encoding="utf-8")


def test_a_table(gpower, files):
    done = gpower("report", files / "genes.csv", "-k", "8,6,5", "-o", files / "report.html")
    assert (done.exit_code, done.stderr) == (0, "")
    address = (files / "report.html").as_uri()
    assert done.stdout == f"Wrote {files / 'report.html'}; open it in any browser: {address}\n"
    model = GPower(3, cardinality=[8, 6, 5]).fit(DATA.X)
    for named in model.loadings(DATA.feature_names):
        for name, loading in named.items():
            assert name in page(files)
            assert f'data-v="{loading!r}"' in page(files)
    assert PATIENTS[0] in page(files)
    assert 'id="path"' not in page(files)


def test_auto_chooses_the_numbers_as_gpower_cv(gpower, files):
    done = gpower.succeed("report", files / "genes.csv", "-m", 2, "-k", "auto", "-o", files / "report.html")
    model = GPowerCV(2).fit(DATA.X)
    choice = model.cardinality_choice_[1:]
    assert "chosen by cross-validation in 5 folds" in choice
    assert choice in done.stderr
    assert choice in page(files)
    assert '<section id="choice"' in page(files)  # its picture
    for named in model.loadings(DATA.feature_names):
        assert all(name in page(files) for name in named)


def test_the_grid_and_the_folds_of_the_choice(gpower, files):
    given = ["-m", 2, "-k", "auto", "--grid", "4,9", "--folds", 3]
    gpower.succeed("fit", files / "genes.csv", *given, "-o", files / "results")
    choice = GPowerCV(2, cardinalities=[4, 9], cv=3).fit(DATA.X).cardinality_choice_[1:]
    for source in ([files / "genes.csv", *given], [files / "results/model.npz", files / "genes.csv"]):
        gpower.succeed("report", *source, "-o", files / "report.html")
        assert choice in page(files)
    refused = gpower("report", files / "results/model.npz", files / "genes.csv", "--grid", "4,9")
    assert "is already fitted, so --grid would have no effect" in refused.stderr


def test_everything(gpower, files):
    asked = ["--path", "--stability", "--test", "--certify", "--title", "All & more"]
    given = ["--metadata", files / "samples.csv", "--gmt", files / "sets.gmt", "-o", files / "report.html"]
    gpower.succeed("report", files / "genes.csv", "-m", 2, "-k", 6, *asked, *given)
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


def test_metadata_of_other_samples_are_matched_only_if_asked(gpower, files):
    foreign = (files / "samples.csv").read_text().replace("Patient", "Person")
    (files / "samples.csv").write_text(foreign)
    given = ["-k", "6", "--metadata", files / "samples.csv", "-o", files / "report.html"]
    done = gpower("report", files / "genes.csv", *given)
    assert done.exit_code == 1
    names = ", ".join(PATIENTS[:3])
    assert f"60 of 60 samples have no row ({names}, …), and 60 of 60 rows no sample (Person-" in done.stderr
    assert "use --metadata-by-order" in done.stderr
    done = gpower("report", files / "genes.csv", *given, "--metadata-by-order")
    assert (done.exit_code, done.stderr) == (0, "")
    assert '<section id="metadata"' in page(files)


def test_a_saved_model(gpower, files):
    gpower.succeed("fit", files / "genes.csv", "-m", 2, "-k", 5, "-o", files / "results")
    gpower.succeed("report", files / "results/model.npz", files / "genes.csv", "--certify", "-o", files / "report.html")
    assert "Of the best possible" in page(files)
    odd = gpower("report", files / "results/model.npz", files / "genes.csv", "-k", 5, "-o", files / "report.html")
    assert odd.exit_code == 1
    assert "is already fitted, so -k 5 would have no effect; leave it out" in odd.stderr


def test_a_saved_search(gpower, files):
    GPowerCV(2, cardinalities=[3, 5], cv=3).fit(DATA.X).save(files / "model.npz")
    gpower.succeed("report", files / "model.npz", files / "genes.csv", "-o", files / "report.html", "--path")
    assert 'id="path"' in page(files)


def test_a_covariance(gpower, files):
    S = np.corrcoef(DATA.X[:, :10].T)
    np.savetxt(files / "S.csv", S, delimiter=",")
    gpower.succeed("report", files / "S.csv", "--covariance", "-m", 2, "-k", 3, "-o", files / "report.html")
    assert 'id="samples"' not in page(files)


@pytest.mark.parametrize("flag", ["--no-scores", "--anonymise"])
def test_patients(gpower, files, flag):
    gpower.succeed("report", files / "genes.csv", "-k", "8,6,5", flag, "-o", files / "report.html")
    assert "Patient-" not in page(files)


def test_hints_about_a_table_do_not_reveal_patients(gpower, files):
    """Names that look like measurements raise a note that quotes a few of them."""
    X = DATA.X.copy()
    X[:, 3:6] *= [1000, 2000, 3000]
    rows = [f"{7700 + i}.5,{','.join(map(str, row))}" for i, row in enumerate(X)]
    (files / "genes.csv").write_text("\n".join([",".join(DATA.feature_names), *rows]) + "\n")
    asked = ["report", files / "genes.csv", "-k", 5, "-o", files / "report.html"]
    done = gpower(*asked)
    assert "7701.5" in done.stderr
    assert "these are numbers (7700.5, 7701.5" in page(files)
    gpower.succeed(*asked, "--no-scores")
    assert "7701.5" not in page(files)
    assert "quotes samples and is left out here" in page(files)
    assert "have nearly all of the weight" in page(files)  # another note, which quotes none


def test_notes_about_metadata_do_not_reveal_patients(gpower, files):
    lines = (files / "samples.csv").read_text().splitlines()
    (files / "samples.csv").write_text("\n".join(lines[:-1]) + "\n")
    asked = ["report", files / "genes.csv", "-k", 5, "--metadata", files / "samples.csv", "-o", files / "report.html"]
    assert f"1 of 60 samples have no row ({PATIENTS[-1]})" in gpower(*asked).stderr
    assert f"have no row ({PATIENTS[-1]})" in page(files)
    gpower.succeed(*asked, "--anonymise")
    assert PATIENTS[-1] not in page(files)


def test_rules_on_the_variables_are_those_of_fit(gpower, files):
    asked = ["-m", 2, "-k", 4, "--include", "GENE1", "--exclude", "GROWTH1", "-o", files / "report.html"]
    gpower.succeed("report", files / "genes.csv", *asked)
    assert "1 variable had to be used, as set beforehand (include)" in page(files)
    assert "exclude=[&#39;GROWTH1&#39;]" in page(files)


class TestRefused:
    def test_a_model_without_its_table(self, gpower, files):
        GPower(2, cardinality=3).fit(DATA.X).save(files / "model.npz")
        assert_refused(gpower("report", files / "model.npz", "-k", 5, "-o", files / "report.html"))
        assert not (files / "report.html").exists()

    def test_a_folder(self, gpower, files):
        done = gpower("report", files / "genes.csv", "-k", 5, "-o", files)
        assert (done.exit_code, done.stderr.count("this is a folder; the result is one file")) == (1, 1)

    def test_a_model_of_another_table(self, gpower, files):
        GPower(2, cardinality=3).fit(DATA.X[:, :10]).save(files / "model.npz")
        done = gpower("report", files / "model.npz", files / "genes.csv", "-o", files / "report.html")
        assert done.exit_code == 1
        assert "150 features" in done.stderr
