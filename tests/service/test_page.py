"""The live page in a real browser: a release goes wrong before its eyes, and a person acts."""

import re

import pytest

from tests.service.running import keys_of, outcome, running, settings, tries
from tests.view import headless_browser
from tether.runs import Run

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
ENTER = "\ue007"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    started = headless_browser.start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


def shown(driver, name, pattern):
    """The text of an element once it matches."""
    for _ in tries():
        text = driver.find_element("id", name).get_attribute("textContent") or ""
        if re.search(pattern, text, re.IGNORECASE):
            return text


def test_a_release_goes_wrong_before_its_eyes(driver, tmp_path):
    release = {"guardrails": {"complaint": 0.1}, "old": {"complaint": 0.01}}
    with running(settings(tmp_path, release, flag={"key": "checkout"})) as client:
        driver.get(f"{client.base_url}/")
        shown(driver, "connection", "^live$")
        shown(driver, "sentence", "step 1")
        assert shown(driver, "title", "checkout")
        driver.execute_script("window.neverLoadedAgain = true")
        for system, loss in (("old", 0), ("new", 1)):
            listed = [outcome(key, system, complaint=loss) for key in keys_of(client, system, 12)]
            assert client.post("/v1/outcomes", json={"outcomes": listed}).status_code == 200
        shown(driver, "sentence", "old system serves alone")
        assert "shown to lose more than 0.1" in shown(driver, "alarms", "stop")
        driver.find_element("id", "offer-resume").click()
        reason = driver.switch_to.active_element
        assert reason.get_attribute("id") == "reason"
        reason.send_keys(HOSTILE, ENTER)
        shown(driver, "sentence", "step 2")
        shown(driver, "acts", re.escape(HOSTILE))
        assert "anyone on this machine" in shown(driver, "acts", "resume")
        assert driver.execute_script("return window.neverLoadedAgain")
        assert driver.find_elements("tag name", "img") == []
        assert "owned" not in driver.title
        urls = {url for url in headless_browser.requested_urls(driver) if url.startswith("http")}
        assert all(url.startswith(str(client.base_url)) for url in urls)
        errors = [each for each in driver.get_log("browser") if each["level"] == "SEVERE"]
        assert errors == []
    shown(driver, "connection", "^reconnecting")
    with Run.open(tmp_path / "release.db") as run:
        assert run.history().acts[-1].reason == HOSTILE


def test_viewers_are_told_of_changes_and_share_a_document(tmp_path):
    with running(settings(tmp_path)) as client:
        with client.stream("GET", "/v1/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert '"document":' in next(lines)
            client.post("/v1/halt", json={"reason": "a rumour"})
            for line in lines:
                if "a rumour" in line:
                    break
        (page,) = client.service.pages
        versions = {client.get("/v1/document").text.count('"title"') for _ in range(3)}
        assert len(versions) == 1
        assert page._version <= 3
