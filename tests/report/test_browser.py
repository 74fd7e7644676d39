"""The report in a browser: layout, contrast, keyboard, screen reader, and no requests."""

import pytest

from tests.report import headless_browser
from tests.report.example_histories import EXAMPLES, example, rendered


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    started = headless_browser.start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in EXAMPLES:
        (folder / f"{name}.html").write_text(rendered(name), encoding="utf-8")
    return folder


@pytest.fixture
def open_page(driver, pages):
    def visit(name, pixels=1200, scheme="light"):
        headless_browser.set_width(driver, pixels)
        headless_browser.set_preferences(driver, scheme)
        driver.get((pages / f"{name}.html").as_uri())
        return driver

    driver.execute_script("try { localStorage.clear() } catch {}")
    return visit


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver, duration=0).send_keys(*keys).perform()


def test_the_page_requests_nothing_and_logs_no_errors(open_page, driver, pages, name):
    driver.get("about:blank")
    headless_browser.requested_urls(driver), driver.get_log("browser")
    open_page(name)
    requested = [
        url for url in headless_browser.requested_urls(driver) if not url.startswith("data:")
    ]
    assert requested == [(pages / f"{name}.html").as_uri()]
    assert driver.get_log("browser") == []
    assert driver.title != "owned"


def test_a_page_that_breaks_its_security_policy_logs_an_error(driver, tmp_path):
    """So the test above can fail."""
    text = rendered("empty").replace("</main>", "<img src='data.png' onload='1'></main>")
    (tmp_path / "bad.html").write_text(text, encoding="utf-8")
    driver.get("about:blank")
    headless_browser.requested_urls(driver), driver.get_log("browser")
    driver.get((tmp_path / "bad.html").as_uri())
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


@pytest.mark.parametrize("pixels", [360, 820, 1200])
def test_charts_fit_into_the_page(open_page, name, pixels):
    driver = open_page(name, pixels)
    plots = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map((plot) => "
        "[...plot.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect())"
        ".filter((box) => box.width).map((box) => [box.width, box.height, box.left, box.right]))"
    )
    assert bool(plots) == bool(example(name).rounds)
    for drawings in plots:
        ((width, height, left, right),) = drawings  # exactly one drawing per chart is visible
        assert width > 250
        assert 180 < height < 420
        assert left >= 0
        assert right <= pixels
    assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ten_rounds", "active_alarm", "hostile_texts"])
def test_text_has_enough_contrast(open_page, name, scheme):
    driver = open_page(name, scheme=scheme)
    checked, too_low = driver.execute_script(headless_browser.FIND_LOW_CONTRAST)
    assert checked > 300
    assert too_low == []


def test_theme_follows_the_system_and_the_button(open_page):
    def background():
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    driver = open_page("one_safe_round", scheme="dark")
    dark, button = background(), driver.find_element("id", "theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = background()
    assert light != dark
    assert button.get_attribute("aria-pressed") == "false"
    driver.refresh()
    assert background() == light  # the choice is remembered
    driver.execute_script("localStorage.clear()")
    driver = open_page("one_safe_round")
    assert background() == light
    driver.find_element("id", "theme").click()
    assert background() == dark
    headless_browser.set_preferences(driver, "dark", media="print")
    assert background() == "rgb(255, 255, 255)"


def test_every_control_can_be_reached_with_tab(open_page):
    driver = open_page("ten_rounds")
    order = []
    for _ in range(60):
        press(driver, "\ue004")
        order.append(
            driver.execute_script(
                "const e = document.activeElement; const s = getComputedStyle(e);"
                "return [e.id || e.className || e.tagName, e.closest('figure')?.id, s.outlineStyle]"
            )
        )
        if order[-1][0] == "BODY":
            break
    assert order[-1][0] == "BODY"
    names = [name for name, *_ in order]
    assert names[0] == "skip"
    assert names[1] == "theme"
    assert names.index("theme") < names.index("plot") < names.index("round")
    assert {"round", "earlier", "scroll"} <= set(names)
    plots = [chart for name, chart, _ in order if name == "plot"]
    charts = ["risk", "beta", "reward", "acceptance", "effective"]
    assert plots == [f"chart-{name}" for name in charts]
    assert names.count("SUMMARY") == 6
    assert all(outline != "none" for *_, outline in order[:-1])  # the focus is visible


def test_the_skip_link_leads_past_the_banner(open_page):
    driver = open_page("one_safe_round")
    press(driver, "\ue004", "\ue007")
    assert driver.execute_script("return document.activeElement.id") == "main"


def test_the_arrow_keys_read_the_points_of_a_chart(open_page):
    history = example("ten_rounds")
    driver = open_page("ten_rounds")
    plot = driver.find_element("css selector", "#chart-risk .plot")
    driver.execute_script("arguments[0].focus()", plot)
    announcement = driver.find_element("id", "announcement")
    press(driver, "\ue014")
    assert announcement.get_attribute("textContent").startswith("Round 1: ")
    press(driver, "\ue010")  # End
    assert announcement.get_attribute("textContent").startswith("Round 10: ")
    press(driver, "\ue012", "\ue012", "\ue012", "\ue012")
    tip = driver.find_element("css selector", "#chart-risk .tip")
    assert tip.text.startswith(f"Round 6: {history.rounds[5].losses['loss'].mean:.3g}")
    dot = driver.execute_script(
        "const c = document.querySelector('#chart-risk .cursor').getBoundingClientRect().left;"
        "const p = document.querySelector('#chart-risk svg.wide');"
        "const b = p.getBoundingClientRect();"
        "const x = JSON.parse(p.dataset.points)[5][0] / p.viewBox.baseVal.width;"
        "return [c, b.left + x * b.width]"
    )
    assert dot[0] == pytest.approx(dot[1], abs=1)
    press(driver, "\ue007")
    assert driver.execute_script("return document.activeElement.id") == "round"
    assert driver.find_element("id", "round").get_attribute("value") == "6"
    driver.execute_script("arguments[0].focus()", plot)
    press(driver, "\ue012", "\ue00c")  # Escape
    assert not tip.is_displayed()


def test_the_pointer_finds_the_nearest_round(open_page):
    from selenium.webdriver.common.action_chains import ActionChains

    driver = open_page("two_hundred_rounds")
    svg = driver.find_element("css selector", "#chart-beta svg.wide")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    ActionChains(driver, duration=0).move_to_element(svg).perform()
    tip = driver.find_element("css selector", "#chart-beta .tip").text
    number = int(tip.split(":")[0].removeprefix("Round "))
    assert 80 < number < 120
    assert f"beta {example('two_hundred_rounds').rounds[number - 1].beta:.3g}" in tip


def test_a_tap_shows_the_tip_and_a_click_opens_the_round(open_page):
    from selenium.webdriver.common.action_chains import ActionChains

    driver = open_page("ten_rounds")
    svg = driver.find_element("css selector", "#chart-beta svg.wide")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    tip = driver.find_element("css selector", "#chart-beta .tip")
    box = driver.execute_script("return arguments[0].getBoundingClientRect()", svg)
    where = [{"x": box["x"] + 0.3 * box["width"], "y": box["y"] + 0.5 * box["height"]}]
    before = driver.execute_script("return scrollY")
    for kind, points in (("touchStart", where), ("touchEnd", [])):
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert tip.text.startswith("Round 3: beta")
    assert driver.execute_script("return scrollY") == before
    assert driver.find_element("id", "round").get_attribute("value") == "10"
    ActionChains(driver, duration=0).move_to_element(svg).click().perform()
    assert driver.find_element("id", "round").get_attribute("value") == "5"
    assert driver.execute_script("return scrollY") > before


def test_another_round_can_be_selected(open_page):
    driver = open_page("ten_rounds")

    def visible():
        return driver.execute_script(
            "return [[...document.querySelectorAll('.card')].filter((e) => e.offsetHeight)"
            ".map((e) => e.dataset.round), [...new Set([...document.querySelectorAll('.selected')]"
            ".map((e) => e.dataset.round))], [...document.querySelectorAll('.not-drawn')]"
            ".filter((e) => e.offsetHeight).map((e) => e.textContent)]"
        )

    assert visible() == [["10"], ["10"], []]
    driver.find_element("id", "earlier").click()
    assert visible() == [["9"], ["9"], []]
    assert driver.find_element("id", "later").is_enabled()
    options = driver.find_elements("css selector", "#round option")
    options[-1].click()
    cards, selected, notes = visible()
    assert (cards, selected, set(notes)) == (["1"], [], {"Nothing was calibrated."})
    assert not driver.find_element("id", "earlier").is_enabled()


def test_without_javascript_the_latest_round_is_shown(open_page, driver):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page("ten_rounds")
        cards = [card for card in driver.find_elements("class name", "card") if card.is_displayed()]
        assert [card.find_element("tag name", "h3").text for card in cards] == [
            "Round 10, biopsy-model-10"
        ]
        assert not driver.find_element("id", "round").is_displayed()
        assert not driver.find_element("id", "theme").is_displayed()
        assert driver.find_element("css selector", "#chart-curve .selected").is_displayed()
        driver.find_element("css selector", "#chart-risk summary").click()
        assert driver.find_element("css selector", "#chart-risk table").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_everything_has_a_name_for_screen_readers(open_page):
    driver = open_page("ten_rounds")
    tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and "role" in node
    ]
    roles = [role for role, _ in nodes]
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert roles.count(landmark) == 1, landmark
    images = [name for role, name in nodes if role in ("img", "image")]
    assert len(images) == 6
    assert all(len(name) > 30 for name in images)
    named = {"button", "combobox", "link", "region", "figure", "DisclosureTriangle"}
    assert [role for role, name in nodes if role in named and not name] == []
    assert ("combobox", "Round") in nodes
    (title,) = [name for role, name in nodes if role == "heading" and "Running" in name]
    words = " ".join(title.split())
    assert words.startswith("Running : Round 10 follows biopsy-model-10 up to beta = 0.")
