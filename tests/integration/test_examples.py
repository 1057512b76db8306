"""The examples run: those of the paper agree with NumPy, those of the guide with their pages."""

import ast
import importlib.util
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
GALLERY = sorted(path for path in EXAMPLES.glob("*.py") if path.read_text(encoding="utf-8").startswith('"""\n'))


PROGRAMS = sorted(
    path for folder in ("benchmarks", "experiments", "tools") for path in (EXAMPLES.parent / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(EXAMPLES.parent).as_posix())
def test_programs_import_names_that_exist(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("gpower", "tests"):
            for name in (alias.name for alias in node.names):
                exec(f"from {node.module} import {name}", {})


@pytest.fixture
def pyplot(monkeypatch):
    """Return pyplot without windows."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    return pyplot


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_the_examples_of_the_gallery_draw(path, pyplot):
    pytest.importorskip("anndata" if path.stem == "single_cells" else "pandas")
    runpy.run_path(str(path), run_name="__main__")
    assert pyplot.get_fignums()


def read_page(name):
    """Return the text that a page shows as printed, and the paths of its pictures, all of which are small."""
    text = (EXAMPLES.parent / "docs" / f"{name}.md").read_text(encoding="utf-8")
    fences = re.findall(r"^```([\w{}]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    pictures = [EXAMPLES.parent / "docs" / path for path in re.findall(r"\]\((images/[^)]+)\)", text)]
    assert all(path.stat().st_size < 100_000 for path in pictures)
    return "".join(shown for language, shown in fences if not language and not shown.startswith("gpower ")), pictures


def load(name):
    """Load an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["power_method", "shifted_power_method"])
def test_the_power_methods_find_the_largest_eigenvalue(name, capsys):
    example = load(name)
    eigenvalue, vector = example.main()
    values, vectors = np.linalg.eigh(example.matrix())
    assert eigenvalue == pytest.approx(values[-1], rel=1e-9)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert abs(vector @ vectors[:, -1]) == pytest.approx(1, abs=1e-8)
    printed = capsys.readouterr().out
    assert f"{values[-1]:.6f}" in printed
    assert "Converged" in printed


def test_procrustes_is_solved_as_well_as_from_many_random_starts(capsys):
    example = load("procrustes")
    residual, X = example.main()
    C, D = example.problem()
    np.testing.assert_allclose(X.T @ X, np.eye(3), atol=1e-10)
    assert residual == pytest.approx(np.sum((C - D @ X) ** 2))
    rng = np.random.default_rng(1)
    starts = [np.linalg.qr(rng.standard_normal(X.shape))[0] for _ in range(50)]
    objective = example.Procrustes(C, D)
    assert residual <= min(objective.residual(start) for start in starts)
    assert residual <= min(objective.residual(example.solve(C, D, start).point) for start in starts[:10]) + 1e-6
    assert f"residual {residual:.6f}" in capsys.readouterr().out


@pytest.mark.parametrize("m", [1, 3, 6])
def test_procrustes_with_an_orthogonal_matrix_is_a_polar_factor(m):
    """‖C − DX‖ = ‖DᵀC − X‖: the nearest orthonormal matrix to DᵀC, known in closed form."""
    example, rng = load("procrustes"), np.random.default_rng(4)
    D = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    C = rng.standard_normal((6, m))
    start = np.linalg.qr(rng.standard_normal((6, m)))[0]
    U, _, Vt = np.linalg.svd(D.T @ C, full_matrices=False)
    np.testing.assert_allclose(example.solve(C, D, start).point, U @ Vt, atol=1e-8)


@pytest.mark.slow
def test_how_many_variables_prints_what_its_page_shows(capsys, tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    answer = load("how_many_variables").main([str(tmp_path)])
    shown, pictures = read_page("how-many-variables")
    assert capsys.readouterr().out == shown
    assert {picture.name for picture in pictures} == {file.name for file in tmp_path.iterdir()}
    assert np.all(np.diff(answer.path.adjusted_variance[:, 0]) >= 0)
    assert np.all(answer.choice.cardinality_ < answer.predictive.cardinality_)
    assert answer.stable.model.cardinality_.tolist() == answer.choice.best_params_["cardinality"]


@pytest.mark.parametrize(("example", "page"), [("known_variables", "known-variables"), ("batches", "covariates")])
@pytest.mark.usefixtures("pyplot")
def test_a_guide_shows_what_its_example_prints(example, page, capsys):
    runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")
    assert capsys.readouterr().out == read_page(page)[0]


def test_the_guide_to_constraints_has_its_pictures_and_its_groups():
    models = load("constraints").solve()["planted"]
    first, second = (set(np.flatnonzero(row)) for row in models["disjoint"].components_)
    assert set(range(5)) < first
    assert set(range(5, 10)) < second
    assert not first & second
    assert np.triu(models[None].overlap_, 1).sum() > 0
    assert len(read_page("constraints")[1]) == 7
