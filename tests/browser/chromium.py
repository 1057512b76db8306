"""A real browser for the tests of pages: Chromium, driven by Playwright."""

import os
import shutil
from importlib.util import find_spec

import pytest

#: Nothing is looked up, synchronised or updated while a test runs.
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
    "no browser, so pages are not tried out; to have one: apt-get install chromium (or set CHROMIUM to the program), "
    "pip install playwright"
)
_PLACE = """([figure, source, x, y, i]) => {
  const page = Bokeh.documents.at(-1), drawn = page.get_model_by_name(figure);
  const data = page.get_model_by_name(source).data;
  const view = Bokeh.index.get_by_id(drawn.id), box = view.canvas_view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(data[x][i]), box.y + view.frame.y_scale.compute(data[y][i])];
}"""


def executable():
    """The program, "" where there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""


def require():
    """Skip the tests of a module where there is no browser; or fail, if GPOWER_BROWSER says that it is required."""
    if executable() and find_spec("playwright"):
        return
    if os.environ.get("GPOWER_BROWSER") == "required":
        pytest.fail(ADVICE, pytrace=False)
    pytest.skip(ADVICE, allow_module_level=True)


def place_of(page, i, figure="scores", source="samples", x="x", y="y"):
    """Where the i-th point of a figure is on the screen."""
    return page.evaluate(_PLACE, [f"figure-{figure}", source, x, y, i])
