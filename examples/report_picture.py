"""Takes a picture of a report: its top in the light theme and one round in the dark theme.

    python examples/report_picture.py examples/demo/work/report.html docs/pictures/report.png

Needs Chromium, chromedriver and the extra `test`.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

CHROMIUM_FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"""
WINDOW_SIZE = 1200, 1240


def take_screenshot(driver: WebDriver, scheme: str, selector: str) -> Image.Image:
    """Scroll to an element and take a screenshot in the color scheme "light" or "dark"."""
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.execute_script(f"document.querySelector({selector!r}).scrollIntoView()")
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


def main(report: Path, picture: Path) -> None:
    """Open the report, take two screenshots and save them side by side."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in [*CHROMIUM_FLAGS.split(), f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            width, height = WINDOW_SIZE
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            driver.get(report.resolve().as_uri())
            screenshots = [
                take_screenshot(driver, "light", "body"),
                take_screenshot(driver, "dark", "#one-round"),
            ]
        finally:
            driver.quit()
    joined = Image.new("RGB", (2 * width, height))
    for index, screenshot in enumerate(screenshots):
        joined.paste(screenshot, (index * width, 0))
    smaller = joined.resize((width * 6 // 5, height * 3 // 5), Image.Resampling.LANCZOS)
    smaller.save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures/report.png"))
