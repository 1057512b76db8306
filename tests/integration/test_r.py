"""The script of docs/r-users.md under reticulate, if R is installed, gives the results of Python."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from gpower import GPower, GPowerCV

ROOT = Path(__file__).parents[2]
READY = 'requireNamespace("reticulate", quietly = TRUE) && reticulate::py_numpy_available(initialize = TRUE)'


def run_r(lines):
    """Return what R prints for some lines, with this Python under reticulate."""
    environment = os.environ | {"RETICULATE_PYTHON": sys.executable}
    command = ["Rscript", "--vanilla", "-e", "\n".join([f"if (!({READY})) quit(status = 3)", *lines])]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


@pytest.fixture(scope="module", autouse=True)
def r_is_there():
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    if run_r([]).returncode == 3:
        pytest.skip("R has no reticulate that knows this NumPy")


@pytest.fixture(scope="module")
def answer():
    """Return a fit, the tuned numbers and the PCA of R's iris data, as R sees them."""
    done = run_r(
        [
            'source("examples/spca.R")',
            "X <- iris[, 1:4]",
            "fit <- spca(X, ncomp = 2, keepX = c(2, 2))",
            "tuned <- tune.spca(X, ncomp = 2, test.keepX = 1:4, folds = 5)",
            "dense <- spca(X, ncomp = 2, deflation = 'projection')",
            "pca <- prcomp(X, scale. = TRUE)",
            "loadings <- matrix(0, 4, 2, dimnames = list(names(X), c('comp1', 'comp2')))",
            "loadings[cbind(fit$loadings$variable, as.character(fit$loadings$component))] <- fit$loadings$loading",
            "rows <- function(M) unname(split(as.matrix(M), row(as.matrix(M))))",
            "angle <- abs(sum(pca$rotation[, 1] * dense$model$components_[1, ]))",
            "parts <- list(loadings = rows(loadings), scores = rows(fit$variates[, -1]),",
            "  share = fit$explained$proportion, keepX = as.list(tuned$choice.keepX), angle = angle,",
            "  names = names(fit$variates))",
            'cat(reticulate::import("json")$dumps(parts))',
        ]
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_fit_is_the_one_of_python(answer):
    X = load_iris().data
    model = GPower(2, cardinality=(2, 2), scale=True).fit(X)
    np.testing.assert_allclose(answer["loadings"], model.components_.T, atol=1e-10)
    np.testing.assert_allclose(answer["scores"], model.transform(X), atol=1e-9)
    np.testing.assert_allclose(answer["share"], model.explained_variance_ratio_)
    tuned = GPowerCV(2, cardinalities=[1, 2, 3, 4], cv=5, scale=True).fit(X)
    assert answer["keepX"] == tuned.best_params_["cardinality"]


def test_without_keepx_the_result_is_that_of_prcomp(answer):
    assert answer["angle"] == pytest.approx(1, abs=1e-9)


def test_results_are_frames_for_ggplot(answer):
    assert answer["names"] == ["sample", "comp1", "comp2"]


def test_text_columns_are_named():
    done = run_r(['source("examples/spca.R")', "spca(iris)"])
    assert done.returncode != 0
    assert "Not numbers: Species. Leave these columns out." in done.stderr


def test_the_page_shows_what_the_script_prints():
    page = (ROOT / "docs" / "r-users.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```r\n([^`]*)```\n\n```\n([^`]*)```", page, flags=re.DOTALL)
    assert blocks
    for code, printed in blocks:
        done = run_r(code.replace('source("spca.R")', 'source("examples/spca.R")').splitlines())
        assert done.stdout == printed, done.stderr
