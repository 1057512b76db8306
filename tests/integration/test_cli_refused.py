"""What a command refuses is one line of error that names the flag or the file, exit code 1, and no new file."""

import numpy as np
import pytest
from tests.command_line import assert_refused, write_csv, write_gmt

from gpower import GPower, sparsity_path
from gpower.datasets import load_planted_expression

for package in ("matplotlib", "bokeh", "jinja2"):
    pytest.importorskip(package)

DATA = load_planted_expression()
X, NAMES, SAMPLES = DATA.X, DATA.feature_names, DATA.sample_names
TWO = (["s1", "s2"], NAMES)  # names of the columns and rows of two components
OTHER_OPTIONS = "--solver paper does not go together with"
NO_MATCH = "60 of 60 samples have no row (S01, S02, S03, …), and 60 of 60 rows no sample (Person-"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table, its models and loadings, metadata, and files with a mistake each, and return their folder."""
    folder = tmp_path_factory.mktemp("refused")
    write_csv(folder / "x.csv", X, NAMES, SAMPLES)
    write_csv(folder / "few.csv", X[:, 2:], NAMES[2:])
    write_csv(folder / "nameless.csv", np.eye(7))
    np.save(folder / "infinite.npy", np.where(X > 2, np.inf, X))
    np.save(folder / "single.npy", X[:1])
    model = GPower(2, cardinality=5).fit(X)
    model.save(folder / "nameless.npz")
    model.feature_names_in_ = np.array(NAMES, object)
    model.save(folder / "m.npz")
    with np.load(folder / "m.npz") as archive:
        np.savez(folder / "damaged.npz", **dict(archive) | {"overlap_": np.zeros(0)})
    GPower(1, cardinality=3, covariance="precomputed").fit(np.cov(X.T)).save(folder / "covariance.npz")
    sparsity_path(X, cardinalities=[2]).save(folder / "path.npz")
    write_csv(folder / "loadings.csv", model.components_.T, *TWO)
    write_csv(folder / "large.csv", X[:2].T + 7, *TWO)
    write_csv(folder / "dense.csv", np.linspace(0.01, 0.1, 300).reshape(150, 2), *TWO)
    write_gmt(folder / "sets.gmt", DATA.gene_sets)
    ages = [["NA" if i == 1 else 20 + i, f"p{i % 3}"] for i in range(60)]
    write_csv(folder / "samples.csv", ages, ["age", "plate"], SAMPLES)
    write_csv(folder / "foreign.csv", ages, ["age", "plate"], [f"Person-{name}" for name in SAMPLES])
    write_csv(folder / "twice.csv", [*ages, ages[3]], ["age", "plate"], [*SAMPLES, SAMPLES[3]])
    for name, text in (
        ("words.csv", "a,b,c\n"),
        ("dear.csv", f"{NAMES[0]},dear\n"),
        ("other.csv", "gene,group\nZZ,a\n"),
        ("short.csv", "gene,grp,s1,s2,s3\na,x,1,2,3\nb\nc,y,3,5,4\n"),
    ):
        (folder / name).write_text(text)
    (folder / "loop.npz").symlink_to(folder / "loop.npz")
    return folder


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit x.csv -m 0", ["error: -m 0"]),
        ("fit x.csv -k 0", ["error: -k 0: a component uses"]),
        ("fit x.csv -k 999", ["error: -k 999"]),
        ("fit x.csv -k 5 --gamma 0.1", ["error: -k and --gamma"]),
        ("fit x.csv --gamma 1.5", ["error: --gamma 1.5"]),
        ("fit x.csv --penalty l7", ["error: --penalty l7 is not known"]),
        ("fit x.csv --covariance", ["error: --covariance needs a square matrix"]),
        ("fit x.csv --index-col nobody", ["--index-col nobody is not a heading; the file has the columns name, "]),
        ("fit x.csv --drop a,nobody", ["--drop a is not a heading"]),
        ("fit x.csv --plot loadings.bmp", ["error: loadings.bmp: a picture ends in .png, .pdf or .svg"]),
        ("fit x.csv --key X", ["--key X has no meaning for a .csv file"]),
        ("fit x.csv --device tpu", ["use cpu or cuda"]),
        ("fit x.csv --solver paper --refit none", [f"{OTHER_OPTIONS} --refit"]),
        (
            "fit x.csv --solver paper --acceleration",
            [f"{OTHER_OPTIONS} --acceleration"],
        ),  # one of the two is the default
        ("fit x.csv --solver paper --no-acceleration", [f"{OTHER_OPTIONS} --no-acceleration"]),
        ("fit x.csv -m 2 --gamma 0.1 --constraint disjoint", ["works on components with a cardinality"]),
        ("fit x.csv -k 3 --checkpoint loop.npz", ["loop.npz: this is a loop of links"]),
        ("fit infinite.npy -k 3", ["error: infinite.npy: ", "contains infinity"]),
        ("fit single.npy -k 3", ["error: single.npy: ", "a single sample has no variance"]),
        (
            "fit x.csv -k auto --gamma 0.1",
            ["-k auto does not go together with --gamma 0.1; give the number of variables"],
        ),
        ("fit x.csv -k auto --covariance", ["-k auto does not go together with --covariance"]),
        ("fit x.csv -k auto -m auto", ["-m auto and -k auto cannot be used together"]),
        ("fit x.csv -k auto --rule most", ["--rule most is not known"]),
        ("fit x.csv -k auto --folds 100", ["cv=100: between 2 and n_samples=60 folds"]),
        ("fit x.csv -k 3 --grid 2,3 --rule best", ["--grid, --rule would have no effect: add -k auto"]),
        ("fit x.csv --groups other.csv", ["x.csv, other.csv: ", "groups names 'ZZ', but no variable"]),
        ("fit x.csv --groups nowhere.csv", ["--groups nowhere.csv: there is no such file. A column of DATA can hold"]),
        (
            "fit short.csv --transpose --groups grp -k 1",
            ["short.csv: ", "row 2 below the header has 1 cell(s), and none in"],
        ),
        (
            "fit x.csv --groups words.csv",
            ["words.csv", "a line for each variable is needed: its name and the value, or"],
        ),
        ("fit x.csv --weights dear.csv", ["dear.csv", "line 1: 'dear' is not a number"]),
        ("fit x.csv --include nobody", ["include names 'nobody', but no variable has this name"]),
        ("fit x.csv --batch plate", ["The columns to remove are plate; give the file that has them"]),
        ("fit x.csv --metadata samples.csv --batch plat", ["there is no column 'plat' in age, plate"]),
        ("fit x.csv --metadata samples.csv --covariates age", ["'age' has 1 missing value(s), first in row 1"]),
        ("fit x.csv --metadata samples.csv --categorical label", ["there is no column 'label' in age, plate"]),
        ("fit x.csv --categorical age", ["--categorical names columns of --metadata"]),
        ("fit x.csv --balance", ["--balance weights batches equally"]),
        ("path x.csv -k 500", ["cardinalities contains 500: each entry must be a whole number of variables between 1"]),
        ("path x.csv -k 3 --gammas 0.1", ["cardinalities and gammas are two grids; give one of them"]),
        ("path x.csv --metadata samples.csv", ["--metadata has no effect without --covariates or --batch"]),
        ("compare x.csv -k 8 --methods lasso", ["--methods lasso is not known"]),
        ("compare x.csv -k 200", ["-k 200: a component uses between 1 and n_features=150"]),
        ("enrich loadings.csv --gmt absent.gmt", ["error: absent.gmt: there is no such file."]),
        ("enrich loadings.csv --gmt sets.gmt --scope both", ["scope is 'both'; choose 'component' or 'all'."]),
        ("enrich loadings.csv --gmt sets.gmt --alpha 2", ["alpha is 2.0"]),
        ("enrich loadings.csv --gmt sets.gmt --top 1000", ["top is 1000; give a number of genes between 1 and 150"]),
        ("enrich loadings.csv --gmt sets.gmt -o sets.gmt", ["sets.gmt: this is what the command reads"]),
        ("enrich nameless.npz --gmt sets.gmt", ["fitted without gene names; give its loadings.csv instead"]),
        ("enrich large.csv --gmt sets.gmt", ["large.csv: loadings are at most 1, but this table has an entry of"]),
        (
            "enrich dense.csv --gmt sets.gmt",
            ["dense.csv: every component uses all genes, so no gene set can stand out"],
        ),
        ("inspect x.csv", ["'x.csv' is not a gpower model but some other file; give the model.npz that gpower fit -o"]),
        ("transform x.csv x.csv", ["'x.csv' is not a gpower model but some other file"]),
        ("transform covariance.npz x.csv", ["covariance.npz was fitted to a covariance, without means, and cannot"]),
        ("transform m.npz x.csv --missing fill", ["--missing fill is not known"]),
        ("transform m.npz x.csv --metadata samples.csv", ["--metadata has no effect without --covariates or --batch"]),
        ("plot absent.npz x.csv", ["absent.npz"]),
        ("plot path.npz x.csv", ["path.npz contains a SparsityPath; this command takes a GPower or a GPowerCV model"]),
        ("plot nameless.npz nameless.csv", ["X has 7 features, but GPower is expecting 150 features"]),
        ("plot m.npz x.csv --suffix gif", ["--suffix gif is not known"]),
        ("plot m.npz x.csv --metadata twice.csv", [f"the sample {SAMPLES[3]!r} has two rows, 5 and 62; keep one"]),
        ("plot m.npz x.csv --metadata foreign.csv", [NO_MATCH, "use --metadata-by-order"]),
        ("report m.npz -k 5", ["m.npz"]),
        ("report m.npz x.csv -k 5", ["m.npz is already fitted, so -k 5 would have no effect; leave it out"]),
        ("report m.npz x.csv --grid 4,9", ["m.npz is already fitted, so --grid would have no effect"]),
        ("report damaged.npz x.csv", ["'damaged.npz' is damaged: overlap_ has the shape (0,)"]),
        ("report x.csv -k 5 -o .", ["this is a folder; the result is one file"]),
    ],
)
def test_one_line_says_why(gpower, folder, monkeypatch, command, words):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert_refused(gpower(*command.split()), *words)
    assert sorted(folder.iterdir()) == before


def test_the_traceback_is_kept_on_demand(gpower, data, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise KeyError("shape")

    monkeypatch.setattr("gpower.cli.commands.fit.load_table", fail)
    result = gpower("fit", data)
    assert_refused(result, str(data), "the command failed (KeyError: 'shape'); add --debug FILE to keep the details.")
    assert gpower("fit", data, "--debug", tmp_path / "new" / "error.txt").stderr == result.stderr
    assert "in fail" in (tmp_path / "new" / "error.txt").read_text()
    assert_refused(gpower("fit", data, "--debug", data), "this is what the command reads")
