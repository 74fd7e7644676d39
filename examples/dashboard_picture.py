"""Takes a picture of the dashboard: a release that goes well, and after its new system turns bad.

    python examples/dashboard_picture.py docs/pictures/dashboard.png

Serves a release with made-up traffic on loopback and looks at it with Chromium. Needs Chromium,
chromedriver and the extra `test`.
"""

from __future__ import annotations

import io
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx2
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

from tether.release import ArmCounts
from tether.service.settings.service_settings import ServiceLimits, ServiceSettings
from tether.service.web_server import ServiceServer, make_config

CHROMIUM_FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"""
WINDOW_SIZE = 1000, 1760
DEADLINE = 60.0
"""How many seconds anything may take."""
OLD_RISK, GOOD_RISK, BAD_RISK = 0.01, 0.008, 0.3
KEYS_PER_CALL, KEYS_PER_STEP = 100, 400


@contextmanager
def serving(folder: Path) -> Iterator[httpx2.Client]:
    """A client of a service with one guardrail and steps of 400 keys.

    A step ends with its last decision, before the outcome of that can be reported: so rows count a
    step later, or the picture would depend on which of the two comes first.
    """
    settings = ServiceSettings(
        store=str(folder / "release.db"),
        release={
            "guardrails": {"complaint": 0.04},
            "old": {"complaint": ArmCounts(20_000, 20_000 * OLD_RISK)},
            "keys_per_step": KEYS_PER_STEP,
            "wait": 1,
            "salt": b"a picture",
        },
        flag="checkout",
        port=0,
        limits=ServiceLimits(answer_within=DEADLINE, store_deadline=DEADLINE),
    )
    server = ServiceServer(make_config(settings))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(DEADLINE)


def wait_for(condition) -> None:
    """Wait until something holds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come about within {DEADLINE:g} s")
        time.sleep(0.05)


def send(client: httpx2.Client, keys: list[str], new_risk: float, rng: random.Random) -> None:
    """Ask for the systems of keys, and report who complained."""
    found = client.post("/v1/decisions", json={"keys": keys}).json()["decisions"]
    outcomes = [
        {
            "key": each["key"],
            "system": each["system"],
            "losses": {
                "complaint": int(rng.random() < (new_risk if each["system"] == "new" else OLD_RISK))
            },
        }
        for each in found
    ]
    client.post("/v1/outcomes", json={"outcomes": outcomes}).raise_for_status()


def send_calls(client: httpx2.Client, calls: range, new_risk: float, rng: random.Random) -> None:
    """Send calls of different keys; after the last one of a step wait for the next step."""

    def is_in_step(number: int) -> bool:
        return client.get("/v1/status").json()["step"]["number"] == number

    for call in calls:
        first = KEYS_PER_CALL * call
        send(client, [f"user {first + each}" for each in range(KEYS_PER_CALL)], new_risk, rng)
        done, rest = divmod(first + KEYS_PER_CALL, KEYS_PER_STEP)
        if not rest:
            wait_for(lambda step=1 + done: is_in_step(step))


def take_screenshot(driver: WebDriver, scheme: str) -> Image.Image:
    """Take a screenshot in the color scheme "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


def watch(driver: WebDriver, client: httpx2.Client) -> list[Image.Image]:
    """Two screenshots: before and after the new system turns bad."""

    def said(name: str) -> str:
        return driver.find_element("id", name).get_attribute("textContent") or ""

    rng = random.Random(7)
    driver.get(f"{client.base_url}/")
    send_calls(client, range(26), GOOD_RISK, rng)
    wait_for(lambda: said("step") == "7" and said("progress-note").startswith("200 keys"))
    screenshots = [take_screenshot(driver, "light")]
    send_calls(client, range(26, 27), BAD_RISK, rng)
    wait_for(lambda: said("heading") == "Active alarm")
    return [*screenshots, take_screenshot(driver, "dark")]


def main(picture: Path) -> None:
    """Serve, look and save the screenshots side by side."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    width, height = WINDOW_SIZE
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as client:
        for flag in [*CHROMIUM_FLAGS.split(), f"--user-data-dir={folder}/profile"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            screenshots = watch(driver, client)
        finally:
            driver.quit()
    joined = Image.new("RGB", (2 * width, height))
    for index, screenshot in enumerate(screenshots):
        joined.paste(screenshot, (index * width, 0))
    smaller = joined.resize((width * 6 // 5, height * 3 // 5), Image.Resampling.LANCZOS)
    colors = smaller.quantize(192, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colors.save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/dashboard.png"))
