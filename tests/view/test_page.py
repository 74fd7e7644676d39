"""The page in a browser: charts, numbers, layout, contrast, keyboard, print, and no requests."""

import pytest

from tests.view import headless_browser
from tests.view.example_runs import EXAMPLES, HOSTILE, example
from tether.view import document, page_html

TAB, ENTER, LEFT, RIGHT, HOME, ESCAPE = "\ue004", "\ue007", "\ue012", "\ue014", "\ue011", "\ue00c"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in EXAMPLES:
        shown = document(example(name), title=HOSTILE if name == "hostile" else name)
        (folder / f"{name}.html").write_text(page_html(shown), encoding="utf-8")
    return folder


@pytest.fixture
def visit(driver, pages):
    def visit(name, pixels=1200, scheme="light", media=""):
        headless_browser.set_width(driver, pixels)
        headless_browser.set_preferences(driver, scheme, media)
        driver.get((pages / f"{name}.html").as_uri())
        return driver

    return visit


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver, duration=0).send_keys(*keys).perform()


def text_of(driver, selector):
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
    )


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_it_requests_nothing_logs_nothing_and_has_every_chart(visit, driver, pages, name):
    driver.get("about:blank")
    headless_browser.requested_urls(driver), driver.get_log("browser")
    visit(name)
    urls = headless_browser.requested_urls(driver)
    assert [url for url in urls if not url.startswith("data:")] == [
        (pages / f"{name}.html").as_uri()
    ]
    assert driver.get_log("browser") == []
    assert "owned" not in driver.title.split("·")[0]
    shown = document(example(name))
    assert text_of(driver, "#sentence") == [shown["state"]["sentence"]]
    assert text_of(driver, "#promise") == [shown["promise"]["sentence"]]
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('figure')].map((figure) => [figure.id, "
        "[...figure.querySelectorAll('.plot path, .plot circle')].length])"
    )
    expected = [f"chart-{chart['id']}" for chart in shown["charts"]]
    curve = ["chart-curve"] if shown["units"][-1]["curve"] else []
    assert [figure for figure, _ in drawn] == expected + curve
    assert all(marks > 0 for _, marks in drawn)
    assert not driver.find_element("id", "acting").is_displayed()  # nobody acts on a report


def test_a_page_that_breaks_its_security_policy_logs_an_error(driver, tmp_path):
    """So the test above can fail."""
    page = page_html(document(example("empty")))
    page = page.replace("</main>", "<img src='data.png' onload='1'></main>")
    (tmp_path / "bad.html").write_text(page, encoding="utf-8")
    driver.get((tmp_path / "bad.html").as_uri())
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


def test_tables_beside_the_charts_have_their_numbers(visit):
    driver = visit("release")
    shown = document(example("release"))
    for chart in shown["charts"]:
        rows = text_of(driver, f"#chart-{chart['id']} tbody tr")
        assert len(rows) == len({point[0] for s in chart["series"] for point in s["points"]})
    mean = example("release").units[-1].means["new"]["complaint"]
    (first,) = text_of(driver, "#chart-loss-1 tbody tr:first-child td:last-child")
    assert first == f"{mean.mean:.3g} ({mean.lower:.3g} to {mean.upper:.3g})"
    heights = driver.execute_script(
        "const d = [...document.querySelectorAll('#chart-loss-1 .plot circle.dot')];"
        "return d.map((e) => Number(e.getAttribute('cy')))"
    )
    means = [u.means["new"]["complaint"] for u in example("release").units]
    means = [each.mean for each in means if each.count]
    order = sorted(range(len(means)), key=means.__getitem__)
    assert [heights[k] for k in order] == sorted(heights, reverse=True)
    assert len(text_of(driver, "#units tbody tr")) == len(shown["units"])


@pytest.mark.parametrize("pixels", [360, 820, 1200])
@pytest.mark.parametrize("name", ["release", "controller", "hostile"])
def test_everything_fits_into_the_page(visit, name, pixels):
    driver = visit(name, pixels)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels
    boxes = driver.execute_script(
        "return [...document.querySelectorAll('.plot > svg')].map((svg) => "
        "svg.getBoundingClientRect()).map((box) => [box.left, box.right, box.height])"
    )
    assert all(left >= 0 and right <= pixels and height > 180 for left, right, height in boxes)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["stopped", "controller"])
def test_text_has_enough_contrast(visit, name, scheme):
    checked, too_low = visit(name, scheme=scheme).execute_script(headless_browser.FIND_LOW_CONTRAST)
    assert checked > 150
    assert too_low == []


def test_it_follows_the_theme_and_prints_on_white(visit):
    background = "return getComputedStyle(document.body).backgroundColor"
    light, dark = (visit("release", scheme=s).execute_script(background) for s in ("light", "dark"))
    assert light != dark
    driver = visit("release", scheme="dark", media="print")
    assert driver.execute_script(background) == "rgb(255, 255, 255)"
    assert not driver.find_element("id", "earlier").is_displayed()


def test_every_control_can_be_reached_with_tab_and_the_focus_is_visible(visit):
    driver = visit("controller")
    order = []
    for _ in range(60):
        press(driver, TAB)
        order.append(
            driver.execute_script(
                "const e = document.activeElement;"
                "return [e.id || e.className || e.tagName, getComputedStyle(e).outlineStyle]"
            )
        )
        if order[-1][0] == "BODY":
            break
    names = [name for name, _ in order]
    assert names[0] == "skip"
    assert names[-1] == "BODY"
    assert {"plot", "unit", "earlier", "SUMMARY", "scroll"} <= set(names)
    assert all(outline != "none" for _, outline in order[:-1])


def test_the_arrow_keys_read_a_chart_and_enter_chooses_a_unit(visit):
    driver = visit("release")
    plot = driver.find_element("css selector", "#chart-loss-1 .plot")
    driver.execute_script("arguments[0].focus()", plot)
    press(driver, HOME)
    assert text_of(driver, "#announcement")[0].startswith("Step 1, old system: ")
    press(driver, RIGHT)
    tip = driver.find_element("css selector", "#chart-loss-1 .tip")
    mean = example("release").units[1].means["new"]["complaint"]
    assert f"new system: {mean.mean:.3g}" in tip.text
    press(driver, ENTER)
    assert driver.execute_script("return document.activeElement.id") == "unit"
    assert driver.find_element("id", "unit").get_attribute("value") == "2"
    level = example("release").units[1].level
    assert f"{100 * level:.3g}\xa0%" in text_of(driver, "#unit-facts dd")
    driver.find_element("id", "earlier").click()
    assert driver.find_element("id", "unit").get_attribute("value") == "1"
    assert not driver.find_element("id", "earlier").is_enabled()
    driver.execute_script("arguments[0].focus()", plot)
    press(driver, LEFT, ESCAPE)
    assert not tip.is_displayed()


def test_everything_has_a_name_for_screen_readers(visit):
    driver = visit("controller")
    tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and "role" in node
    ]
    images = [name for role, name in nodes if role in ("img", "image")]
    assert len(images) == len(driver.find_elements("css selector", ".plot > svg"))
    assert all(len(name) > 20 for name in images)
    named = {"button", "combobox", "link", "region", "DisclosureTriangle"}
    assert [role for role, name in nodes if role in named and not name] == []
