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
_LOCATE_POINT = """([figure, source, x, y, i]) => {
  const page = Bokeh.documents.at(-1), drawn = page.get_model_by_name(figure);
  const data = page.get_model_by_name(source).data;
  const view = Bokeh.index.get_by_id(drawn.id), box = view.canvas_view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(data[x][i]), box.y + view.frame.y_scale.compute(data[y][i])];
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


def locate_point(page, i, figure="scores", source="samples", x="x", y="y"):
    """Return the position of the i-th point of a figure on the screen."""
    return page.evaluate(_LOCATE_POINT, [f"figure-{figure}", source, x, y, i])
