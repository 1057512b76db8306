"""A real browser for the tests of pages: Chromium, driven by Playwright."""

import os
import shutil
from importlib.util import find_spec

import pytest

#: Options that stop background requests, synchronisation and updates while a test runs.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ADVICE = (
    "no browser, so pages are not tested; to install one: apt-get install chromium (or set CHROMIUM to the program), "
    "pip install playwright"
)
_LOCATE_SAMPLE = """(i) => {
  const page = Bokeh.documents.at(-1), drawn = page.get_model_by_name("figure-scores");
  const { x, y } = page.get_model_by_name("samples").data;
  const view = Bokeh.index.get_by_id(drawn.id), box = view.canvas_view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(x[i]), box.y + view.frame.y_scale.compute(y[i])];
}"""


def find_executable():
    """Return the path of the browser, "" if none is installed."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""


def require_browser():
    """Skip the tests of a module if no browser is installed, or fail if GPOWER_BROWSER is "required"."""
    if find_executable() and find_spec("playwright"):
        return
    if os.environ.get("GPOWER_BROWSER") == "required":
        pytest.fail(ADVICE, pytrace=False)
    pytest.skip(ADVICE, allow_module_level=True)


def locate_sample(page, i):
    """Return the position of the i-th sample of the chart of scores on the screen."""
    return page.evaluate(_LOCATE_SAMPLE, i)
