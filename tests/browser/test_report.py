"""The report in a real browser: it shows the numbers of the model, reacts to the user and sends no request."""

import csv
import io
import re

import numpy as np
import pytest
from scipy import stats
from tests.browser.chromium import locate_sample, require_browser
from tests.polling import wait_until

from gpower import GPower, html_report

require_browser()
CHOSEN = "#t-samples tbody tr:not([hidden])"


@pytest.fixture
def page(open_page, case):
    return open_page(case["file"])


def cells(page, table, column):
    """Return a column of the rows shown, with all digits of numbers."""
    rows = f"{table} tbody tr:not([hidden])"
    take = "(rows, j) => rows.map((row) => row.cells[j].dataset.v ?? row.cells[j].textContent.trim())"
    return page.eval_on_selector_all(rows, take, column)


def drag(page, corners):
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in [*corners[1:], corners[0]]:
        page.mouse.move(*corner, steps=4)
    page.mouse.up()


class TestNumbers:
    def test_loadings_are_the_models_with_means_spreads_and_frequencies(self, page, case):
        listed = [
            (j, name, loading)
            for j, named in enumerate(case["model"].loadings(case["data"].feature_names), 1)
            for name, loading in named.items()
        ]
        component, variable, *numbers = (cells(page, "#t-loadings", j) for j in range(6))
        assert [float(j) for j in component] == [j for j, _, _ in listed]
        assert variable == [name for _, name, _ in listed]
        loading, mean, spread, frequency = np.array(numbers, float)
        assert loading.tolist() == [x for _, _, x in listed]
        names = list(case["data"].feature_names)
        at = [names.index(name) for name in variable]
        np.testing.assert_allclose(mean, case["data"].X[:, at].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(spread, case["data"].X[:, at].std(axis=0, ddof=1), rtol=1e-12)
        components = np.array(component, float).astype(int) - 1
        np.testing.assert_array_equal(frequency, case["stability"].frequency[components, at])

    def test_scores_and_distances_are_the_models(self, page, case):
        model, X = case["model"], case["data"].X
        assert cells(page, "#t-samples", 1) == list(case["data"].sample_names)
        expected = [*case["scores"].T, model.hotelling_t2(X), model.squared_residual(X)]
        for j, values in enumerate(expected, 2):
            np.testing.assert_allclose(np.array(cells(page, "#t-samples", j), float), values, rtol=1e-12)
        drawn = page.evaluate("[...Bokeh.documents[0].get_model_by_name('samples').data.inside]")
        np.testing.assert_allclose(drawn, model.hotelling_t2(X), rtol=1e-12)

    def test_cards_show_shares_certificates_and_p_values(self, page, case):
        model = case["model"]
        cards = page.locator("#components .card").all_inner_texts()
        assert len(cards) == 3
        for j, card in enumerate(cards):
            assert f"{100 * model.explained_variance_ratio_[j]:.3g}\N{NO-BREAK SPACE}%" in card
            assert re.search(r"Of the best possible\n(100 %|≥ \d\d\.\d+ %)\n", card)
            assert "By chance\np = " in card
        assert "GROWTH" in cards[0].partition("Gene sets")[2]

    def test_bars_of_all_cards_have_one_scale(self, page, case):
        largest = np.abs(case["model"].components_).max()
        factor = 50 if (case["model"].components_ < 0).any() else 100
        for j, loadings in enumerate(case["model"].loadings(case["data"].feature_names)):
            bars = page.locator("#components .card").nth(j).locator(".bar span").all()
            for bar, loading in zip(bars, loadings.values(), strict=True):
                width = float(re.search(r"width:([\d.]+)%", bar.get_attribute("style"))[1])
                assert width == pytest.approx(factor * abs(loading) / largest, abs=0.06)

    def test_associations_have_the_sign_of_rho(self, page, case):
        shown = page.locator("#metadata tbody tr").nth(1).locator("td.number")
        for j in range(3):
            rho = stats.spearmanr(case["scores"][:, j], case["metadata"]["age"])[0]
            assert float(shown.nth(j).get_attribute("data-v")) == pytest.approx(rho)
            assert shown.nth(j).inner_text().startswith(f"{rho:+.2f}".replace("-", "−"))
        assert not page.locator("#metadata tbody tr").first.locator("td.number").first.inner_text().startswith("+")


class TestSamples:
    def test_a_hover_shows_name_scores_and_metadata(self, page, case):
        page.locator("#chart-scores").scroll_into_view_if_needed()
        page.mouse.move(*locate_sample(page, 3))
        tip = page.locator(".bk-tooltip-content").first
        tip.wait_for()
        text = tip.inner_text()
        assert case["data"].sample_names[3] in text
        assert f"{case['scores'][3, 1]:.4g}" in text
        assert f"age:\t{case['metadata']['age'][3]:.4g}" in text
        assert f"status:\t{case['metadata']['status'][3]}" in text

    def test_a_lasso_selects_the_samples_inside(self, page, case):
        page.locator("#chart-scores").scroll_into_view_if_needed()
        places = np.array([locate_sample(page, i) for i in range(60)])
        left, top = places.min(axis=0) - 12
        right, bottom = np.median(places[:, 0]), places[:, 1].max() + 12
        drag(page, [(left, top), (right, top), (right, bottom), (left, bottom)])
        inside = np.flatnonzero(places[:, 0] < right)
        assert wait_until(lambda: page.locator(CHOSEN).count() < 60)
        assert cells(page, "#t-samples", 1) == [case["data"].sample_names[i] for i in inside]
        assert f"{inside.size} of 60 rows, of the samples chosen" in page.locator("#samples output").inner_text()
        selected = page.evaluate(
            "Bokeh.documents[0].get_model_by_name('figure-outliers').renderers[0].data_source.selected.indices"
        )
        assert sorted(selected) == inside.tolist()
        page.get_by_role("button", name="Choose none").click()
        assert len(cells(page, "#t-samples", 1)) == 60

    def test_samples_are_selected_without_a_mouse(self, page, case):
        page.get_by_label("Search").first.fill("control")
        page.get_by_role("button", name="Choose the samples shown").press("Enter")
        page.get_by_label("Search").first.fill("")
        expected = np.flatnonzero(case["metadata"]["status"] == "control")
        assert cells(page, "#t-samples", 1) == [case["data"].sample_names[i] for i in expected]
        box = page.get_by_label(f"Choose {case['data'].sample_names[expected[0]]}", exact=True)
        box.press("Space")
        chosen = page.evaluate("Bokeh.documents[0].get_model_by_name('samples').selected.indices")
        assert sorted(chosen) == expected[1:].tolist()

    def test_pairs_of_components(self, page, case):
        page.get_by_label("Across").select_option("3")
        page.get_by_label("Upwards").select_option("2")
        page.get_by_label("Upwards").select_option("3")  # the component of the other axis: they swap
        assert [page.get_by_label(axis).input_value() for axis in ("Across", "Upwards")] == ["2", "3"]
        page.get_by_label("Across").select_option("3")
        assert [page.get_by_label(axis).input_value() for axis in ("Across", "Upwards")] == ["3", "2"]
        x, y = page.evaluate("['x', 'y'].map((n) => [...Bokeh.documents[0].get_model_by_name('samples').data[n]])")
        np.testing.assert_allclose([x, y], case["scores"].T[[2, 1]], rtol=1e-12)
        label = "Bokeh.documents[0].get_model_by_name('figure-scores').below[0].axis_label.text"
        assert page.evaluate(label) == f"Component 3 ({100 * case['model'].explained_variance_ratio_[2]:.3g} %)"

    def test_colours_by_metadata(self, page):
        drawn = "Bokeh.documents[0].get_model_by_name('figure-scores').renderers"
        visible = f"{drawn}.filter((dots) => dots.visible).map((dots) => dots.name)"
        assert page.evaluate(visible) == ["by:m0"]  # the first column of metadata
        legend = page.locator(".legend:visible")
        assert legend.count() == 1
        assert {"case", "control"} <= set(legend.inner_text().split())
        page.get_by_label("Colour").select_option(label="age")
        assert page.evaluate(visible) == ["by:m1"]
        assert page.locator(".legend:visible .shades").count() == 1


class TestVariables:
    @pytest.fixture
    def first(self, case):
        """Return the name of the first variable listed and its values."""
        name = next(iter(case["model"].loadings(case["data"].feature_names)[0]))
        return name, case["data"].X[:, list(case["data"].feature_names).index(name)].astype(np.float32)

    def check(self, page, name, values):
        assert page.locator("#colour option:checked").inner_text() == name
        drawn = page.evaluate("[...Bokeh.documents[0].get_model_by_name('samples').data.value]")
        np.testing.assert_array_equal(np.float32(drawn), values)
        column = page.locator("#t-samples thead th").count() - 1
        np.testing.assert_array_equal(np.float32(cells(page, "#t-samples", column)), values)
        assert name in page.locator("#announcement").text_content()

    def test_a_click_shows_its_values_over_the_scores(self, page, first):
        page.locator("#components .variable").first.click()
        self.check(page, *first)

    def test_the_keyboard_shows_its_values_over_the_scores(self, page, first):
        page.locator("#t-loadings .variable").first.press("Enter")
        self.check(page, *first)


class TestTables:
    def test_sorting_up_and_down(self, page):
        head = page.locator("#t-loadings thead th").nth(2)
        head.get_by_role("button").click()
        shown = [float(x) for x in cells(page, "#t-loadings", 2)]
        assert shown == sorted(shown)
        assert head.get_attribute("aria-sort") == "ascending"
        head.get_by_role("button").press("Enter")
        assert [float(x) for x in cells(page, "#t-loadings", 2)] == sorted(shown, reverse=True)
        page.locator("#t-loadings thead th").nth(1).get_by_role("button").click()
        names = cells(page, "#t-loadings", 1)
        assert names == sorted(names)
        assert head.get_attribute("aria-sort") == "none"

    def test_the_variables_of_a_component_are_two_clicks_away(self, page, case):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("link", name="6 variables in the table, to save or copy").click()
        assert set(cells(page, "#t-loadings", 0)) == {"2.0"}
        expected = list(case["model"].loadings(case["data"].feature_names)[1])
        assert cells(page, "#t-loadings", 1) == expected
        page.get_by_role("button", name="Copy the names shown").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()").split("\n") == expected
        page.locator("#component").select_option(label="all")
        assert len(cells(page, "#t-loadings", 1)) == 19

    def test_the_methods_are_copied_whole(self, page):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the text").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator("#methods-text").inner_text().strip()

    def test_csv_has_the_rows_found_with_all_digits(self, page, case):
        page.locator(".tools[data-for=t-loadings] input").fill("stress")
        assert page.locator(".tools[data-for=t-loadings] output").inner_text() == "5 of 19 rows"
        with page.expect_download() as download:
            page.locator(".tools[data-for=t-loadings] .csv").click()
        assert download.value.suggested_filename == "loadings.csv"
        text = download.value.path().read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text)))
        expected = case["model"].loadings(case["data"].feature_names)[2]
        assert {row["variable"]: float(row["loading"]) for row in rows} == expected


def test_the_slider_walks_the_path(page, case):
    slider, path = page.locator("#point"), case["path"]
    sizes = path.cardinality.mean(axis=1)
    text = page.locator("#point-words").inner_text()
    share = case["model"].explained_variance_ratio_.sum() / path.pca_variance_ratio.sum()
    assert text.startswith(f"6.333 variables per component, as on this page: {100 * share:.4g} % of the variance of ")
    slider.press("Home")
    for i in range(len(path)):
        if i:
            slider.press("ArrowRight")
        if "as on this page" in page.locator("#point-words").inner_text():
            slider.press("ArrowRight")
        text = page.locator("#point-words").inner_text()
        assert text.startswith(f"{sizes[i]:.4g} {'variable' if sizes[i] == 1 else 'variables'} per component: ")
        assert f"{100 * path.share_of_pca[i]:.4g}" in text
        first = page.locator("#point-components .card").first.inner_text()
        largest = next(iter(path[i].loadings(case["data"].feature_names)[0]))
        assert largest in first
    assert page.locator("#path tbody tr").count() == len(path) + 1


def test_doubts_are_above_everything_else(open_page, tmp_path):
    X = np.random.default_rng(1).standard_normal((40, 30))
    model = GPower(2, cardinality=8).fit(X)
    page = open_page(html_report(model, X, tmp_path / "report.html", warnings=["First.", "Second."]))
    assert page.locator("#doubts li").all_inner_texts() == ["First.", "Second."]
    assert page.locator("#doubts").bounding_box()["y"] < page.locator("#components").bounding_box()["y"]


class TestReaders:
    @pytest.mark.parametrize("width", [1280, 400])
    def test_nothing_is_wider_than_the_screen(self, open_page, case, width):
        page = open_page(case["file"], viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        box = page.locator("#t-samples").evaluate("(table) => [table.offsetWidth, table.parentElement.clientWidth]")
        assert width == 400 or box[0] <= box[1]  # all columns are visible
        assert page.locator("#chart-scores canvas").first.bounding_box()["width"] <= width

    @pytest.mark.parametrize("mobile", [False, True])
    def test_a_finger_scrolls_and_a_mouse_draws(self, open_page, case, mobile):
        page = open_page(case["file"], viewport={"width": 400, "height": 800}, has_touch=mobile, is_mobile=mobile)
        tools = "Bokeh.documents[0].get_model_by_name('figure-scores').toolbar.tools"
        assert page.evaluate(f"{tools}.find((tool) => tool.type === 'LassoSelectTool').active") is not mobile

    def test_dark_and_light(self, open_page, case):
        colours = []
        for scheme in ("light", "dark"):
            page = open_page(case["file"], color_scheme=scheme)
            axis = page.evaluate("Bokeh.documents[0].get_model_by_name('figure-scores').below[0].axis_label_text_color")
            colours.append((page.evaluate("getComputedStyle(document.body).backgroundColor"), axis))
        assert colours[0][0] == "rgb(255, 255, 255)"
        assert colours[0][0] != colours[1][0]
        assert colours[0][1] != colours[1][1]

    def test_without_javascript_there_are_tables_and_a_note(self, open_page, case):
        page = open_page(case["file"], ready=False, java_script_enabled=False)
        assert page.locator("#t-loadings tbody tr").count() == 19
        assert page.locator("#t-samples tbody tr").first.is_visible()
        assert page.get_by_text("The charts of samples need JavaScript").is_visible()
        for hidden in ("#across", "#point", ".csv >> nth=0", "#chart-scores"):
            assert not page.locator(hidden).is_visible()

    def test_print_shows_the_charts_but_no_control(self, page):
        page.emulate_media(media="print")
        assert page.locator("#chart-scores").is_visible()
        for hidden in ("nav", "#across", ".csv >> nth=0"):
            assert not page.locator(hidden).is_visible()
        assert page.pdf().startswith(b"%PDF")

    def test_every_control_has_a_name_and_every_part_is_reached_from_the_top(self, page):
        silent = """(all) => all
          .filter((each) => !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label")))
          .map((each) => each.outerHTML.slice(0, 80))"""
        assert page.eval_on_selector_all("button, a, input, select", silent) == []
        untitled = "(all) => all.filter((each) => !each.querySelector('h2')).length"
        assert page.eval_on_selector_all("main section", untitled) == 0
        targets = page.eval_on_selector_all("nav a", "(all) => all.map((a) => a.getAttribute('href'))")
        assert len(targets) == 11
        for target in targets:
            assert page.locator(target).is_visible()
