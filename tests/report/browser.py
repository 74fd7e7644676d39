"""A real browser for the report: headless Chromium, with its console and its requests at hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def start(folder: Path):
    """A browser with a profile of its own in `folder`; a skipped test where there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    helper = shutil.which("chromedriver")
    if found is None or helper is None:
        pytest.skip("Chromium and chromedriver are not installed: the report was not looked at")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = found
    for flag in [*FLAGS.split(), f"--user-data-dir={folder}", "--window-size=1200,900"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(helper))


def requested(driver) -> list[str]:
    """What the browser has asked for since it was asked last."""
    messages = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
    return [
        each["params"]["request"]["url"]
        for each in messages
        if each["method"] == "Network.requestWillBeSent"
    ]


def width(driver, pixels: int) -> None:
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )


def prefers(driver, scheme: str, media: str = "") -> None:
    """What the system asks of pages; never motion, so that nothing moves under a click."""
    wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


CONTRAST = """
const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => {
  const linear = (v) => v <= 10.3 ? v / 3294.6 : ((v / 255 + .055) / 1.055) ** 2.4;
  return .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
};
const behind = (node) => {
  for (let each = node; each; each = each.parentElement) {
    const color = parse(getComputedStyle(each).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const bad = [];
let seen = 0;
for (const details of document.querySelectorAll("details")) details.open = true;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
  if (!node.getClientRects().length || node.closest(".unseen, .skip, :disabled")) continue;
  const style = getComputedStyle(node);
  const fore = parse(node instanceof SVGElement ? style.fill : style.color);
  const [a, b] = [light(fore), light(behind(node))].sort((x, y) => y - x);
  const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
  const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
  seen += 1;
  const ratio = (a + .05) / (b + .05);
  if (ratio < needed) bad.push([walk.currentNode.data.trim(), ratio]);
}
return [seen, bad];
"""
"""Every visible text against what is behind it, by the formula of WCAG 2."""
