"""Hostile names are shown as text everywhere in a report."""

import csv
import io

import numpy as np
import pytest
from tests.browser.chromium import locate_sample, require_browser

from gpower import GPower, html_report
from gpower.analysis.enrichment import enrich
from gpower.report.formatting import format_name

require_browser()
HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src="http://example.invalid/x.png" onerror="window.hacked = 1">',
    "</script><script>window.hacked = 1</script><!--",
    "=cmd|' /C calc'!A0",
    "\u202eevil\u202c \u200fשלום",
    "👩🏽‍🔬 ½ µ",
    "{{ 7 * 7 }} {% raw %}",
    "@name $index @{t1}{safe}",
    "$$\\frac{1}{2}$$ \\[x\\]",
    "a\x00b\x1b[2J\ud800",
    "' onmouseover='window.hacked = 1",
    "javascript:window.hacked=1",
    "line\u2028break\nand tab\t, comma",
    "none \uffff \ufdd0 of these",
    "＝full; =width",
    "x" * 4000,
]


@pytest.fixture(scope="module")
def report_file(tmp_path_factory):
    """Return a report in which every name is hostile."""
    rng, n = np.random.default_rng(0), len(HOSTILE)
    X = rng.standard_normal((3 * n, n))
    X += 2 * rng.standard_normal((3 * n, 1))
    model = GPower(2, cardinality=(n, 3)).fit(X)
    samples = [f"{name} {i}" for i in range(3) for name in HOSTILE]
    metadata = {name: np.resize(np.roll(HOSTILE, i), 3 * n) for i, name in enumerate(HOSTILE[:11])}
    metadata |= {"measured <b>": rng.standard_normal(3 * n)}
    sets = enrich(model, dict.fromkeys(HOSTILE, HOSTILE[:3]), genes=HOSTILE, alpha=0.999)
    file = tmp_path_factory.mktemp("pages") / "hostile.html"
    names = {"sample_names": samples, "feature_names": HOSTILE, "title": HOSTILE[0], "warnings": HOSTILE}
    html_report(model, X, file, metadata=metadata, **names, results=[sets])
    return {"file": file, "samples": samples, "metadata": metadata}


@pytest.fixture
def page(open_page, report_file):
    page = open_page(report_file["file"])
    yield page
    assert page.evaluate("window.hacked") is None
    assert page.locator("img:not([src^='data:image/svg+xml'])").count() == 0
    assert page.locator("body script").count() == 3


def texts(page, selector):
    return page.eval_on_selector_all(selector, "(all) => all.map((each) => each.textContent)")


def normalize_line_ends(names):
    """Return names as the page shows them: HTML turns every line end into a line feed."""
    return [format_name(name) for name in names]


def test_names_are_shown_as_text(page, report_file):
    assert texts(page, "h1") == [HOSTILE[0]]
    assert page.title() == HOSTILE[0]
    assert texts(page, "#t-samples tbody th") == normalize_line_ends(report_file["samples"])
    assert set(normalize_line_ends(HOSTILE)) == set(texts(page, "#t-loadings .variable"))
    heads = texts(page, "#t-samples thead bdi")
    assert heads[-len(report_file["metadata"]) - 1 : -1] == normalize_line_ends(report_file["metadata"])
    assert set(texts(page, "#doubts li bdi")) >= {format_name(name, 2000) for name in HOSTILE}


def test_names_are_isolated_from_the_surrounding_text(page):
    lost = "(all) => all.filter((each) => each.textContent.includes('\\u202e') && !each.closest('bdi')).length"
    assert page.eval_on_selector_all("main *:not(option, :has(*))", lost) == 0


def test_names_in_a_hover(page, report_file):
    page.locator("#chart-scores").scroll_into_view_if_needed()
    for i in range(len(HOSTILE)):
        page.mouse.move(*locate_sample(page, i))
        page.wait_for_function(
            "(name) => document.querySelector('.bk-Tooltip')?.shadowRoot.textContent.includes(name)",
            arg=report_file["samples"][i][:20].split("\x00")[0],
        )
        tip = page.locator(".bk-tooltip-content")
        assert tip.locator("script, img, b").count() == 0
    assert "＠name ＄index" in page.locator(".bk-Tooltip").first.evaluate("(tip) => tip.shadowRoot.textContent")


def test_names_in_choices_and_legends(page, report_file):
    for name in normalize_line_ends(list(report_file["metadata"])):
        page.get_by_label("Colour").select_option(label=name)
        legend = page.locator(".legend:visible")
        assert legend.count() == 1
        assert legend.locator("script, img, b").count() == 0
    page.locator("#t-loadings .variable").first.click()
    assert page.locator("#value-name").text_content() == page.locator("#t-loadings .variable").first.text_content()


def test_pictures_are_valid_images(open_page, report_file):
    page = open_page(report_file["file"], ready=False, java_script_enabled=False)
    pictures = page.locator("figure img")
    assert pictures.count() == 3  # two heat maps and the variances
    for i in range(3):
        page.wait_for_timeout(50)
        assert pictures.nth(i).bounding_box()["height"] > 100  # an invalid image is shown as an icon


def test_names_in_files(page):
    with page.expect_download() as download:
        page.locator(".tools[data-for=t-loadings] .csv").click()
    rows = list(csv.reader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig"), newline="")))
    names = [row[1] for row in rows[1:]]
    assert "'=cmd|' /C calc'!A0" in names
    assert "'@name $index @{t1}{safe}" in names
    assert "'＝full; '=width" not in names  # the apostrophe follows the separator of the cells
    assert "'＝full;' =width" in names
    assert not any(name.startswith(("=", "+", "-", "@", "＝")) for name in names)


def test_the_security_policy_blocks_injected_elements(browser, report_file):
    """An element injected by a name neither runs nor fetches anything."""
    page = browser.new_page()
    console_lines, done, failed = [], [], []
    page.on("console", lambda line: console_lines.append(line.text))
    page.on("requestfinished", lambda request: done.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request.failure))
    page.goto(report_file["file"].as_uri())
    page.wait_for_selector("html[data-ready]")
    done.clear()
    page.evaluate(
        """() => {
          const bad = document.createElement("script");
          bad.textContent = "window.hacked = 1";
          document.body.append(bad);
          const picture = "<img src='http://127.0.0.1:9/x.png' onerror='window.hacked = 1'>";
          document.body.insertAdjacentHTML("beforeend", picture);
          fetch("http://127.0.0.1:9/").catch(() => { window.refused = true; });
        }"""
    )
    page.wait_for_function("window.refused")
    assert page.evaluate("window.hacked") is None
    assert done == []
    assert failed == ["csp"]  # the picture; the other request was never sent
    assert any("Content Security Policy" in line for line in console_lines)
    page.close()
