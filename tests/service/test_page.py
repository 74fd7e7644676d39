"""The live page in a real browser: a release goes wrong before its eyes, and a person acts."""

import re

from tests.service.running import bearer, keys_of, outcome, running, settings, tries
from tests.service.test_decisions import HELD
from tests.view import headless_browser
from tether.runs import Run
from tether.service.access import add_key

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
ENTER = "\ue007"


def shown(driver, name, pattern):
    """The text of an element once it matches."""
    for _ in tries():
        text = driver.find_element("id", name).get_attribute("textContent") or ""
        if re.search(pattern, text, re.IGNORECASE):
            return text


def test_a_release_goes_wrong_before_its_eyes(driver, tmp_path):
    release = {"guardrails": {"complaint": 0.1}, "old": {"complaint": 0.01}}
    release |= {"flag": {"key": "checkout"}}
    secret = add_key(tmp_path / "keys.json", "ann", ["decide", "report", "read", "operate"])
    more = {"access": {"keys": "keys.json"}, "limits": HELD}
    with running(settings(tmp_path, release, **more)) as client:
        client.headers = bearer(secret)
        driver.get(f"{client.base_url}/")
        for _ in tries():
            if driver.find_element("id", "sign-in").is_displayed():
                break
        driver.find_element("id", "key").send_keys(secret, ENTER)
        shown(driver, "connection", "^live$")
        shown(driver, "sentence", "step 1")
        assert shown(driver, "title", "checkout")
        assert driver.find_element("id", "offer-halt").is_enabled()
        driver.execute_script("window.neverLoadedAgain = true")
        driver.execute_script("document.querySelector('#chart-level details').open = true")
        for system, loss in (("old", 0), ("new", 1)):
            listed = [outcome(key, system, complaint=loss) for key in keys_of(client, system, 12)]
            assert client.post("/v1/outcomes", json={"outcomes": listed}).status_code == 200
        shown(driver, "sentence", "old system serves alone")
        assert "shown to lose more than 0.1" in shown(driver, "alarms", "stop")
        assert shown(driver, "announcement", "alarm 1")
        assert not driver.find_element("id", "offer-halt").is_enabled()
        assert driver.find_element("css selector", "#chart-level details").get_property("open")
        driver.find_element("id", "offer-resume").click()
        reason = driver.switch_to.active_element
        assert reason.get_attribute("id") == "reason"
        driver.execute_script("arguments[0].value = 'x'.repeat(1001)", reason)
        reason.send_keys(ENTER)
        shown(driver, "act-problem", "refused: .*reason")
        reason.clear()
        reason.send_keys(HOSTILE, ENTER)
        shown(driver, "sentence", "step 2")
        assert not driver.find_element("id", "act").is_displayed()
        shown(driver, "acts", re.escape(HOSTILE))
        assert "ann" in shown(driver, "acts", "resume")
        assert driver.execute_script("return window.neverLoadedAgain")
        assert driver.find_elements("tag name", "img") == []
        assert "owned" not in driver.title
        with Run.open(tmp_path / "release.db", deadline=60) as other:
            other.submit(lambda _: shown(driver, "problem", "store is unavailable"), 60)
        urls = {url for url in headless_browser.requested_urls(driver) if url.startswith("http")}
        assert all(url.startswith(str(client.base_url)) for url in urls)
        errors = [each["message"] for each in driver.get_log("browser")]
        assert [each for each in errors if "status of 40" not in each] == []  # without a key, or x
    shown(driver, "connection", "^reconnecting")
    with Run.open(tmp_path / "release.db") as run:
        assert run.history().acts[-1].reason == HOSTILE
