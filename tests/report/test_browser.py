"""The report in a browser: it looks right, can be used by keyboard, and asks for nothing."""

import runpy
from pathlib import Path

import pytest
from PIL import Image

from tests.report import browser, histories
from tests.report.conftest import made, rendered


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    started = browser.start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for shape in histories.SHAPES:
        (folder / f"{shape}.html").write_text(rendered(shape), encoding="utf-8")
    return folder


@pytest.fixture
def opened(driver, pages):
    def visit(shape, pixels=1200, scheme="light"):
        browser.width(driver, pixels)
        browser.prefers(driver, scheme)
        driver.get((pages / f"{shape}.html").as_uri())
        return driver

    driver.execute_script("try { localStorage.clear() } catch {}")
    return visit


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver, duration=0).send_keys(*keys).perform()


def test_nothing_is_asked_for_and_nothing_complains(opened, driver, pages, shape):
    driver.get("about:blank")
    browser.requested(driver), driver.get_log("browser")
    opened(shape)
    asked = [url for url in browser.requested(driver) if not url.startswith("data:")]
    assert asked == [(pages / f"{shape}.html").as_uri()]
    assert driver.get_log("browser") == []
    assert driver.title != "owned"


def test_the_guard_would_have_spoken(driver, tmp_path):
    """A page that does ask and complain is noticed, so the test above can fail."""
    text = rendered("empty").replace("</main>", "<img src='data.png' onload='1'></main>")
    (tmp_path / "bad.html").write_text(text, encoding="utf-8")
    driver.get("about:blank")
    browser.requested(driver), driver.get_log("browser")
    driver.get((tmp_path / "bad.html").as_uri())
    assert any("Content Security Policy" in each["message"] for each in driver.get_log("browser"))


@pytest.mark.parametrize("pixels", [360, 820, 1200])
def test_charts_have_sizes_and_nothing_sticks_out(opened, shape, pixels):
    driver = opened(shape, pixels)
    plots = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map((plot) => "
        "[...plot.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect())"
        ".filter((box) => box.width).map((box) => [box.width, box.height, box.left, box.right]))"
    )
    assert bool(plots) == bool(made(shape).rounds)
    for drawings in plots:
        ((width, height, left, right),) = drawings  # one drawing of each chart for each width
        assert width > 250
        assert 180 < height < 420
        assert left >= 0
        assert right <= pixels
    assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", ["ten_rounds", "alarm_standing", "hostile"])
def test_contrast(opened, shape, scheme):
    driver = opened(shape, scheme=scheme)
    seen, bad = driver.execute_script(browser.CONTRAST)
    assert seen > 300
    assert bad == []


def test_theme_follows_the_system_and_the_button(opened):
    def paper():
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    driver = opened("one_safe_round", scheme="dark")
    dark, button = paper(), driver.find_element("id", "theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = paper()
    assert light != dark
    assert button.get_attribute("aria-pressed") == "false"
    driver.refresh()
    assert paper() == light  # the choice is kept
    driver.execute_script("localStorage.clear()")
    driver = opened("one_safe_round")
    assert paper() == light
    driver.find_element("id", "theme").click()
    assert paper() == dark
    browser.prefers(driver, "dark", media="print")
    assert paper() == "rgb(255, 255, 255)"


def test_every_control_is_reached_by_tab(opened):
    driver = opened("ten_rounds")
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
    assert names.count("SUMMARY") == 8
    assert all(outline != "none" for *_, outline in order[:-1])  # one sees where one is


def test_skip_link_leads_past_the_banner(opened):
    driver = opened("one_safe_round")
    press(driver, "\ue004", "\ue007")
    assert driver.execute_script("return document.activeElement.id") == "main"


def test_points_are_read_with_the_arrow_keys(opened):
    history = made("ten_rounds")
    driver = opened("ten_rounds")
    plot = driver.find_element("css selector", "#chart-risk .plot")
    driver.execute_script("arguments[0].focus()", plot)
    spoken = driver.find_element("id", "spoken")
    press(driver, "\ue014")
    assert spoken.get_attribute("textContent").startswith("Round 1: ")
    press(driver, "\ue010")  # End
    assert spoken.get_attribute("textContent").startswith("Round 10: ")
    press(driver, "\ue012", "\ue012", "\ue012", "\ue012")
    tip = driver.find_element("css selector", "#chart-risk .tip")
    assert tip.text.startswith(f"Round 6: {history.rounds[5].loss.mean:.3g}")
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


def test_the_pointer_finds_the_nearest_round(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    driver = opened("two_hundred")
    svg = driver.find_element("css selector", "#chart-beta svg.wide")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    ActionChains(driver, duration=0).move_to_element(svg).perform()
    words = driver.find_element("css selector", "#chart-beta .tip").text
    assert 80 < int(words.split(":")[0].split()[1]) < 120
    assert (
        f"beta {made('two_hundred').rounds[int(words.split(':')[0].split()[1]) - 1].beta:.3g}"
        in (words)
    )


def test_a_finger_reads_and_a_mouse_looks_closer(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    driver = opened("ten_rounds")
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


def test_another_round_can_be_chosen(opened):
    driver = opened("ten_rounds")

    def shown():
        return driver.execute_script(
            "return [[...document.querySelectorAll('.card')].filter((e) => e.offsetHeight)"
            ".map((e) => e.dataset.round), [...new Set([...document.querySelectorAll('.chosen')]"
            ".map((e) => e.dataset.round))], [...document.querySelectorAll('.absent')]"
            ".filter((e) => e.offsetHeight).map((e) => e.textContent),"
            " document.querySelector('#curve-only-words').innerText.trim().slice(0, 8)]"
        )

    assert shown() == [["10"], ["10"], [], "Round 10"]
    driver.find_element("id", "earlier").click()
    assert shown() == [["9"], ["9"], [], "Round 9,"]
    assert driver.find_element("id", "later").is_enabled()
    options = driver.find_elements("css selector", "#round option")
    options[-1].click()
    assert shown() == [["1"], [], ["Nothing was calibrated."] * 3, ""]
    assert not driver.find_element("id", "earlier").is_enabled()


def test_without_script_the_latest_round_is_there(opened, driver):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened("ten_rounds")
        cards = [card for card in driver.find_elements("class name", "card") if card.is_displayed()]
        assert [card.find_element("tag name", "h3").text for card in cards] == [
            "Round 10, biopsy-model-10"
        ]
        assert not driver.find_element("id", "round").is_displayed()
        assert not driver.find_element("id", "theme").is_displayed()
        assert driver.find_element("css selector", "#chart-curve .chosen").is_displayed()
        driver.find_element("css selector", "#chart-risk summary").click()
        assert driver.find_element("css selector", "#chart-risk table").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_what_a_screen_reader_is_told(opened):
    driver = opened("ten_rounds")
    tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nodes = [
        (each["role"]["value"], each.get("name", {}).get("value", ""))
        for each in tree
        if not each["ignored"] and "role" in each
    ]
    roles = [role for role, _ in nodes]
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert roles.count(landmark) == 1, landmark
    images = [name for role, name in nodes if role in ("img", "image")]
    assert len(images) == 8
    assert all(len(name) > 30 for name in images)
    assert any("meets alpha = 0.1 at beta = 0.765" in name for name in images)
    named = {"button", "combobox", "link", "region", "figure", "DisclosureTriangle"}
    assert [role for role, name in nodes if role in named and not name] == []
    assert ("combobox", "Round") in nodes
    (title,) = [name for role, name in nodes if role == "heading" and "Running" in name]
    assert (
        " ".join(title.split())
        == "Running : Round 10 follows biopsy-model-10 as far as beta = 0.765."
    )


def test_the_picture_of_a_report_is_taken(driver, pages, tmp_path):
    """With `driver`, so that it is skipped where there is no browser."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "report_picture.py"))
    example["main"](pages / "ten_rounds.html", tmp_path / "report.png")
    picture = Image.open(tmp_path / "report.png")
    assert picture.size == (1440, 744)
    light, dark = (sum(picture.getpixel((x, 10))) / 3 for x in (400, 1100))
    assert light > 200
    assert dark < 60
