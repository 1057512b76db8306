"""Fixtures of the browser tests: the browser, and pages without errors and outside requests."""

import numpy as np
import pytest
from tests.browser.chromium import ARGUMENTS, find_executable

from gpower import GPower, component_test, html_report, sparsity_path, stability_selection
from gpower.analysis.enrichment import enrich
from gpower.datasets import load_planted_expression

OURS = ("file:", "data:", "blob:")


@pytest.fixture(scope="session")
def browser():
    """Return a running Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_executable(), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens a file; check at the end that no error was logged and no request was sent."""
    contexts, problems = [], []

    def open_file(file, *, ready=True, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # long enough for a busy machine
        page.on("console", lambda line: line.type in ("error", "warning") and problems.append(line.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith(OURS) or problems.append(request.url))
        page.goto(file.as_uri())
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """Return a report with all its parts, and the objects that it was made from."""
    data, rng = load_planted_expression(), np.random.default_rng(0)
    options = {"n_components": 3, "cardinality": (8, 6, 5)}
    model = GPower(**options, certify=True).fit(data.X)
    scores = model.transform(data.X)
    metadata = {
        "status": np.where(scores[:, 0] > 0, "case", "control"),
        "age": rng.uniform(20, 80, len(scores)).round(1),
        "batch": rng.integers(0, 3, len(scores)),
    }
    path = sparsity_path(data.X, n_components=3, cardinalities=[1, 3, 6, 20, 150])
    stability = stability_selection(data.X, **options, n_subsamples=10)
    test = component_test(data.X, 4, cardinality=6, n_permutations=40)
    sets = enrich(model, data.gene_sets, genes=data.feature_names)
    file = tmp_path_factory.mktemp("pages") / "report.html"
    names = {"sample_names": data.sample_names, "feature_names": data.feature_names, "title": "A report"}
    html_report(model, data.X, file, metadata=metadata, results=[path, stability, test, sets], **names)
    results = {"model": model, "scores": scores, "path": path, "stability": stability}
    return results | {"data": data, "metadata": metadata, "file": file}
