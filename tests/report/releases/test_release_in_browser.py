"""The page of a release in a browser: layout, contrast, keyboard, and no requests."""

from dataclasses import replace

import pytest

from tests.report import headless_browser
from tests.report.releases.example_releases import EXAMPLES, example, rendered
from tether.report import render


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    driver = headless_browser.start(tmp_path_factory.mktemp("profile"))
    driver.get("about:blank")
    headless_browser.requested_urls(driver)  # of the browser's own page
    folder = tmp_path_factory.mktemp("pages")

    def visit(name, pixels=1200, scheme="light"):
        path = folder / f"{name}.html"
        path.write_text(rendered(name), encoding="utf-8")
        headless_browser.set_width(driver, pixels)
        headless_browser.set_preferences(driver, scheme)
        driver.get(path.as_uri())
        return driver

    yield visit
    driver.quit()


def test_pages_request_nothing_and_log_no_errors(open_page):
    for name in EXAMPLES:
        driver = open_page(name)
        requested = headless_browser.requested_urls(driver)
        pages = [url for url in requested if not url.startswith("data:")]
        assert [url.rpartition("/")[2] for url in pages] == [f"{name}.html"]
        assert driver.get_log("browser") == []
        assert driver.title != "owned"


@pytest.mark.parametrize("pixels", [360, 820, 1200])
def test_charts_fit_into_the_page(open_page, pixels):
    for name in ("ramp", "two_guardrails", "hostile_names"):
        driver = open_page(name, pixels)
        plots = driver.execute_script(
            "return [...document.querySelectorAll('.plot')].map((plot) => "
            "[...plot.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect())"
            ".filter((box) => box.width).map((box) => [box.width, box.height, box.right]))"
        )
        assert len(plots) == 1 + len(example(name).limits)
        for ((width, height, right),) in plots:  # exactly one drawing per chart is visible
            assert width > 250
            assert 180 < height < 420
            assert right <= pixels
        assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_page, scheme):
    for name in ("ramp", "active_alarm", "hostile_names"):
        driver = open_page(name, scheme=scheme)
        checked, too_low = driver.execute_script(headless_browser.FIND_LOW_CONTRAST)
        assert checked > 150
        assert too_low == []


def test_the_arrow_keys_read_the_steps(open_page):
    from selenium.webdriver.common.action_chains import ActionChains

    driver = open_page("ramp")
    plot = driver.find_element("css selector", "#chart-losses-1 .plot")
    assert "use the arrow keys to read the points" in plot.get_attribute("aria-label")
    driver.execute_script("arguments[0].focus()", plot)
    ActionChains(driver, duration=0).send_keys("\ue014", "\ue007").perform()  # right, Enter
    tip = driver.find_element("css selector", "#chart-losses-1 .tip")
    found = example("ramp").steps[0].new.losses["complaint"]
    assert tip.text.startswith(f"Step 1: new {found.mean:.3g} (")
    announced = driver.find_element("id", "announcement").get_attribute("textContent")
    assert announced == tip.text
    assert driver.get_log("browser") == []


def test_the_address_of_a_store_wraps_on_a_phone(open_page, tmp_path):
    """An address has no place where a line may break by itself."""
    address = "postgresql+psycopg://tether@database.internal.example.org:5432/checkout_release"
    page = tmp_path / "page.html"
    page.write_text(render(replace(example("ramp"), store=address)), encoding="utf-8")
    for pixels in (390, 360):
        driver = open_page("ramp", pixels)
        driver.get(page.as_uri())
        assert address in driver.find_element("tag name", "header").text.replace("\n", "")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels
