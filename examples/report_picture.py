"""Takes the picture of a report: its top in light, one round closely in dark, side by side.

    python examples/report_picture.py report.html docs/report.png

Needs Chromium, chromedriver and the extra `test`.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"""
SIZE = 1200, 1240


def shot(driver: Any, scheme: str, where: str) -> Image.Image:
    """What the window shows from the element `where` on, in light or in dark."""
    preferred = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    driver.execute_script(f"document.querySelector({where!r}).scrollIntoView()")
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


def main(report: Path, picture: Path) -> None:
    """Open the report, look at it twice, and put the two beside each other."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            width, height = SIZE
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            driver.get(report.resolve().as_uri())
            both = [shot(driver, "light", "body"), shot(driver, "dark", "#one-round")]
        finally:
            driver.quit()
    joined = Image.new("RGB", (2 * width, height))
    for place, part in enumerate(both):
        joined.paste(part, (place * width, 0))
    smaller = joined.resize((width * 6 // 5, height * 3 // 5), Image.Resampling.LANCZOS)
    smaller.save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/report.png"))
