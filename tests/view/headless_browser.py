"""Headless Chromium for the report, with access to its console and its requests."""

from __future__ import annotations

import json
import shutil

import pytest

CHROMIUM_FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"""
BROWSER_COMMANDS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser for the tests of a module; they are skipped if none is installed."""
    folder = tmp_path_factory.mktemp("profile")
    browser = next(filter(None, map(shutil.which, BROWSER_COMMANDS)), None)
    program = shutil.which("chromedriver")
    if browser is None or program is None:
        pytest.skip("Chromium and chromedriver are not installed")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in [*CHROMIUM_FLAGS.split(), f"--user-data-dir={folder}", "--window-size=1200,900"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(program))
    yield started
    started.quit()


def requested_urls(driver) -> list[str]:
    """The URLs that the browser has requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def set_width(driver, pixels: int) -> None:
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )


def set_preferences(driver, scheme: str, media: str = "") -> None:
    """Set the preferred color scheme, and reduced motion so that nothing moves under a click."""
    preferences = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in preferences.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


FIND_LOW_CONTRAST = """
const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
const luminance = ([r, g, b]) => {
  const linear = (v) => v <= 10.3 ? v / 3294.6 : ((v / 255 + .055) / 1.055) ** 2.4;
  return .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
};
const backgroundOf = (node) => {
  for (let parent = node; parent; parent = parent.parentElement) {
    const color = parse(getComputedStyle(parent).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const tooLow = [];
let checked = 0;
for (const details of document.querySelectorAll("details")) details.open = true;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
  if (!node.getClientRects().length || node.closest(".visually-hidden, .skip, :disabled")) continue;
  const style = getComputedStyle(node);
  const foreground = parse(node instanceof SVGElement ? style.fill : style.color);
  const [a, b] = [luminance(foreground), luminance(backgroundOf(node))].sort((x, y) => y - x);
  const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
  const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
  checked += 1;
  const ratio = (a + .05) / (b + .05);
  if (ratio < needed) tooLow.push([walk.currentNode.data.trim(), ratio]);
}
return [checked, tooLow];
"""
"""JavaScript: the contrast of every visible text with its background, by the WCAG 2 formula."""
