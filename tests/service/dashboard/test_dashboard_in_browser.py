"""The dashboard in Chromium: a release and a run go wrong before its eyes; who may do what."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.report import headless_browser
from tests.service.running import running, settings, tries
from tests.service.runs.running_run import collect, run_settings
from tether.release import ArmCounts
from tether.rounds import read_history, read_release

LOG = {"complaint": ArmCounts(20_000, 20.0), "delay": ArmCounts(20_000, 200.0)}
RELEASE = {"guardrails": {"complaint": 0.1, "delay": (0.2, 2.0)}, "old": LOG, "keys_per_step": 100}
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
TAB, ENTER = "\ue004", "\ue007"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    made = headless_browser.start(tmp_path_factory.mktemp("profile"))
    headless_browser.set_width(made, 1200)
    headless_browser.set_preferences(made, "light")
    yield made
    made.quit()


def text(driver, name):
    return driver.find_element("id", name).get_attribute("textContent")


def until(driver, name, pattern):
    """Wait until an element says something."""
    for _ in tries():
        if re.search(pattern, found := text(driver, name)):
            return found
        time.sleep(0.02)
    return None


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver, duration=0).send_keys(*keys).perform()


def serve(client, keys, new_loss):
    """Let keys be answered; the new system has one loss for all of them."""
    found = client.post("/v1/decisions", json={"keys": keys}).json()["decisions"]
    outcomes = [
        {
            "key": each["key"],
            "system": each["system"],
            "losses": {"complaint": new_loss * (each["system"] == "new"), "delay": 0},
        }
        for each in found
    ]
    assert client.post("/v1/outcomes", json={"outcomes": outcomes}).status_code == 200


def errors(driver):
    """What the console says, but for requests that were refused or found nobody."""
    return [each for each in driver.get_log("browser") if each["source"] != "network"]


def check_layout(driver, charts):
    for pixels, scheme in ((360, "light"), (820, "dark"), (1200, "light")):
        headless_browser.set_width(driver, pixels)
        headless_browser.set_preferences(driver, scheme)
        for _ in tries():  # charts are drawn again
            widths = driver.execute_script(
                "return [document.documentElement.scrollWidth, ...[...document.querySelectorAll("
                "'svg')].map((svg) => Math.max(svg.getBoundingClientRect().right, "
                "svg.viewBox.baseVal.width))]"
            )
            if max(widths) <= pixels:
                break
        assert len(widths) == 1 + charts
        if pixels == 360:  # tables are stacked: nothing is cut at the right
            cut = (
                "[...document.querySelectorAll('.stack')].map((e) => e.scrollWidth - e.clientWidth)"
            )
            assert max(driver.execute_script(f"return {cut}")) <= 0
        checked, too_low = driver.execute_script(headless_browser.FIND_LOW_CONTRAST)
        assert checked > 100
        assert too_low == []


def check_labels(driver):
    """The label of what is tolerated is beside all means; intervals that go on have an arrow."""
    *_, chart = driver.find_elements("css selector", "#guardrails .charts > figure svg")
    found = driver.execute_script(
        "const edges = (selector, side) => [...arguments[0].querySelectorAll(selector)].map("
        "(each) => each.getBoundingClientRect()[side]);"
        "return [edges('text.level', 'left'), edges('circle', 'right'), edges('.beyond', 'top')]",
        chart,
    )
    labels, dots, arrows = found
    assert min(labels) > max(dots)
    assert len(arrows) > 0


@pytest.mark.slow
def test_a_release_goes_wrong_before_its_eyes(driver, tmp_path):
    given = settings(tmp_path / "release.db", release=RELEASE, flag="checkout")
    with running(given) as client:
        driver.get(f"{client.base_url}/")
        driver.execute_script("window.neverLoadedAgain = true")
        until(driver, "connection", "^live$")
        until(driver, "sentence", "in step 1")
        assert driver.find_elements("css selector", "#guardrails .charts")
        assert not driver.find_elements("css selector", "#guardrails .charts.two")  # no monitor yet
        assert text(driver, "announcement") == "live"
        for number in range(4):
            keys = [f"user {number} {each}" for each in range(100)]
            serve(client, keys[:-1], 0)
            serve(client, keys[-1:], 0)  # the step may end before its loss arrives
            for _ in tries():  # the next one begins beside
                if client.get("/v1/status").json()["step"]["number"] == number + 2:
                    break
        until(driver, "value", "^100 %$")
        until(driver, "sentence", "The new system answers 100.% of the keys in step 5")
        serve(client, [HOSTILE, *(f"late {each}" for each in range(60))], 1)
        until(driver, "heading", "^Active alarm$")
        until(driver, "value", "^0 %$")
        assert "since an alarm in step 5" in until(driver, "announcement", "^Alarm 1: ")
        assert "It raised an alarm at loss" in text(driver, "guardrails")
        assert driver.find_elements("css selector", "#guardrails .charts.two")
        assert "; the evidence grew from loss" in text(driver, "guardrails")
        assert "it stands" in text(driver, "alarms")
        serve(client, [f"{HOSTILE}{each}" for each in range(3)], 1)
        until(driver, "recent", re.escape(HOSTILE))
        image = driver.find_element("css selector", "#guardrails svg")
        assert image.get_attribute("role") == "img"
        assert "the alarm line of the new system is 0.15" in image.get_attribute("aria-label")
        level = driver.find_element("css selector", "#guardrails svg text.alarm")
        assert level.get_attribute("textContent") == "alarm level 0.15"  # the share is 1
        check_layout(driver, charts=5)
        check_labels(driver)
        act_by_keyboard(driver, "resume")
        until(driver, "sentence", "in step 6")
        until(driver, "acts", f"anyone on this machineresume{re.escape(HOSTILE)}")
        assert text(driver, "heading").startswith("Running")
        until(driver, "announcement", "^No alarm stands|^Resume: done")
        assert driver.execute_script("return window.neverLoadedAgain")
        assert driver.find_elements("tag name", "img") == []
        assert "owned" not in driver.title
        assert driver.get_log("browser") == []
        port = client.base_url.port
    until(driver, "connection", r"^reconnecting, as of \d\d:\d\d:\d\d$")
    assert text(driver, "announcement") == "The connection is lost; reconnecting."
    with running(replace(given, port=port)):
        until(driver, "connection", "^live$")
    assert errors(driver) == []
    assert read_release(tmp_path / "release.db").audit[-1].reason == HOSTILE


def act_by_keyboard(driver, name):
    """Go to a button, press it and give a reason."""
    driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    for _ in range(20):
        press(driver, TAB)
        focused = driver.switch_to.active_element
        if focused.get_attribute("id") == name:
            break
    assert focused.value_of_css_property("outline-style") == "solid"
    press(driver, ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "reason"
    press(driver, ENTER)  # without a reason nothing is sent
    assert driver.execute_script("return document.getElementById('act').open")
    press(driver, *HOSTILE, ENTER)
    for _ in tries():
        if driver.switch_to.active_element.get_attribute("id") == "sentence":
            return


@pytest.mark.slow
def test_a_run_goes_wrong_before_its_eyes(driver, tmp_path):
    store, rng = tmp_path / "clinic.db", np.random.default_rng(0)
    with running(run_settings(store)) as client:
        driver.get(f"{client.base_url}/")
        until(driver, "sentence", "^Round 1 uses the safe policy only")
        assert text(driver, "path-title") == "Beta over the rounds"
        collect(client, rng)
        collect(client, rng)
        until(driver, "progress-note", "^800 actions so far")
        act_by_keyboard(driver, "begin")
        until(driver, "sentence", "^Round 2 (follows|uses) the optimized policy")
        until(driver, "acts", f"anyone on this machinebegin{re.escape(HOSTILE)}")
        assert re.search(
            r"expected loss of the next action is at most 0\.1", text(driver, "promise")
        )
        taken = client.post("/v1/actions", json={"contexts": [[0.0, 1.0]] * 60}).json()["actions"]
        bad = [{"id": each["id"], "loss": 1.0} for each in taken]
        assert client.post("/v1/outcomes", json={"outcomes": bad}).status_code == 200
        until(driver, "heading", "^Active alarm$")
        until(driver, "value", "^0$")
        assert "since an alarm in round 2" in until(driver, "announcement", "^Alarm 1: ")
        until(driver, "guardrails", "It raised an alarm at loss")
        until(driver, "recent", r"round 2.*\[0\.0, 1\.0\].*loss 1")
        image = driver.find_element("css selector", "#guardrails svg")
        assert "the alarm line of the round's policy is" in image.get_attribute("aria-label")
        board = text(driver, "board")
        assert not re.search("system|step|keys", board, re.IGNORECASE)
        check_layout(driver, charts=3)
        act_by_keyboard(driver, "resume")
        until(driver, "heading", "^Running")
        until(driver, "acts", f"anyone on this machineresume{re.escape(HOSTILE)}")
        until(driver, "guardrails", "has not seen a loss of the round's policy yet")
        assert driver.find_elements("tag name", "img") == []
    assert errors(driver) == []
    assert [each.act for each in read_history(store).audit] == ["begin", "resume"]
