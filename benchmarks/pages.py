"""``python -m benchmarks.pages``: measure the time and size of a report, and how fast the page responds.

The table has 500 samples, 20,000 variables and metadata; the model has five components. The last two lines need
Chromium and Playwright, and are left out without them.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from tests.browser.chromium import find_executable

from gpower import GPower, html_report

SAMPLES, VARIABLES, COMPONENTS, CARDINALITY = 500, 20_000, 5, 20
HOVERS = 20


def table():
    """Return a table of noise with five groups of variables, each with a factor, and the metadata of the samples."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SAMPLES, VARIABLES), dtype=np.float32)
    factors = rng.standard_normal((SAMPLES, COMPONENTS))
    for j in range(COMPONENTS):
        X[:, 30 * j : 30 * j + 30] += (2 - 0.2 * j) * factors[:, [j]]
    groups = np.where(factors[:, 0] > 0, "case", "control")
    return X, {"group": groups, "age": rng.uniform(20, 80, SAMPLES).round(1), "batch": rng.integers(0, 4, SAMPLES)}


def clocked(work):
    """Return the result of a call, its wall-clock time and its processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.perf_counter() - wall, time.process_time() - processor


def browser_times(file):
    """Return the seconds to open a page, and the milliseconds of the response to every hover."""
    from playwright.sync_api import sync_playwright
    from tests.browser.chromium import ARGUMENTS, locate_sample

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_executable(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        _, opened, _ = clocked(lambda: (page.goto(file.as_uri()), page.wait_for_selector("html[data-ready]")))
        page.locator("#chart-scores").scroll_into_view_if_needed()
        answers = []
        for i in range(HOVERS):
            page.mouse.move(1, 1)
            page.wait_for_timeout(50)
            place = locate_sample(page, i)
            _, seconds, _ = clocked(lambda place=place: _hovered(page, place))
            answers.append(1000 * seconds)
        browser.close()
    return opened, answers


def _hovered(page, place):
    page.mouse.move(*place)
    page.locator(".bk-tooltip-row-label").first.wait_for()


def main():
    X, metadata = table()
    model, fit_wall, fit_processor = clocked(lambda: GPower(COMPONENTS, cardinality=CARDINALITY).fit(X))
    print(f"fit {SAMPLES} × {VARIABLES:,}, {COMPONENTS} components: {fit_wall:.2f} s ({fit_processor:.2f} s processor)")
    with tempfile.TemporaryDirectory() as folder:
        for what in ("first report, imports included", "second report"):
            file, wall, processor = clocked(
                lambda: html_report(model, X, Path(folder, "report.html"), metadata=metadata)
            )
            print(f"{what}: {wall:.2f} s ({processor:.2f} s processor)")
        print(f"size: {file.stat().st_size / 1e6:.2f} MB")
        if find_executable():
            opened, answers = browser_times(file)
            print(f"opened and ready: {opened:.2f} s")
            print(f"hover: median {np.median(answers):.0f} ms, largest {max(answers):.0f} ms of {HOVERS}")


if __name__ == "__main__":
    main()
