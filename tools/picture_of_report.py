"""Draw the picture of the report that the README shows: ``python tools/picture_of_report.py``, with Chromium at hand.

The report is that of the bundled expression table, some samples chosen, one hovered.
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import ARGUMENTS, find_executable, locate_sample  # noqa: E402

from gpower import GPower, component_test, html_report  # noqa: E402
from gpower.analysis.enrichment import enrich  # noqa: E402
from gpower.datasets import load_planted_expression  # noqa: E402

WIDTH, HEIGHT, SHOWN = 1280, 1640, 900


def written(folder: Path) -> Path:
    """The report."""
    data = load_planted_expression()
    model = GPower(3, cardinality=(8, 6, 5), certify=True).fit(data.X)
    names = {"sample_names": data.sample_names, "feature_names": data.feature_names}
    growth = model.transform(data.X)[:, 0]
    metadata = {"growth": np.where(growth > 5, "fast", np.where(growth < -5, "slow", "between"))}
    found = [enrich(model, data.gene_sets, genes=data.feature_names), component_test(data.X, 3, cardinality=6)]
    options = {"title": "Expression of 150 genes", "metadata": metadata, "results": found}
    return html_report(model, data.X, folder / "report.html", **names, **options)


def shot(file: Path) -> bytes:
    """The upper part of the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_executable(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.get_by_label("Colour").select_option(label="growth")
        page.mouse.move(*locate_sample(page, 18))
        page.wait_for_timeout(500)
        picture = page.screenshot()
        browser.close()
    return picture


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Image.open(io.BytesIO(shot(written(Path(folder)))))
    small = picture.resize((SHOWN, round(SHOWN * picture.height / picture.width)), Image.Resampling.LANCZOS)
    small.convert("RGB").save(ROOT / "docs" / "images" / "report.png", optimize=True)


if __name__ == "__main__":
    main()
