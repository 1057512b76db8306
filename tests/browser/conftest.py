"""What the tests of pages share: the browser, and pages that must neither fail nor ask for anything."""

import numpy as np
import pytest
from tests.browser.chromium import ARGUMENTS, executable

from gpower import GPower, component_test, html_report, sparsity_path, stability_selection
from gpower.analysis.enrichment import enrich
from gpower.datasets import load_planted_expression

OURS = ("file:", "data:", "blob:")


@pytest.fixture(scope="session")
def browser():
    """Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Open a file as a reader would; in the end no error was logged and no request has left."""
    contexts, faults = [], []

    def open_page(file, *, ready=True, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # on a busy machine
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(OURS) else faults.append(asked.url))
        page.goto(file.as_uri())
        if ready:
            page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """A report with everything in it, and what it was made of."""
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
    again = stability_selection(data.X, **options, n_subsamples=10)
    test = component_test(data.X, 4, cardinality=6, n_permutations=40)
    sets = enrich(model, data.gene_sets, genes=data.feature_names)
    names = {"sample_names": data.sample_names, "feature_names": data.feature_names}
    file = tmp_path_factory.mktemp("pages") / "report.html"
    html_report(model, data.X, file, metadata=metadata, **names, results=[path, again, test, sets], title="A report")
    found = {"model": model, "data": data, "scores": scores, "metadata": metadata, "path": path, "again": again}
    return found | {"test": test, "sets": sets, "file": file, "names": names}
