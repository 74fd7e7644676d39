"""Operating releases: the gate and the status follow the release's own verdict; webhooks tell."""

import hmac
import re
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest
import yaml

from tests.service.running import Receiver, bearer, keys_of, outcome, running, settings, until
from tether.runs import Run
from tether.service import make_application, webhooks
from tether.service.access import add_key

EXAMPLES = Path(__file__).parents[2] / "examples"
LENIENT = {"guardrails": {"complaint": 0.5}, "old": {"complaint": 0.01}}
STRICT = {"guardrails": {"complaint": 0.05}, "old": {"complaint": 0.01}}


def report(client, system, count, losses, prefix="user"):
    """Outcomes of so many keys of a system."""
    keys = keys_of(client, system, count, prefix)
    listed = [outcome(key, system, complaint=losses(k)) for k, key in enumerate(keys)]
    found = client.post("/v1/outcomes", json={"outcomes": listed})
    assert found.status_code == 200, found.text


def told(client, path, accept):
    """What a path says once it is as it should be."""
    return until(lambda: client.get(path).json(), accept)


def test_a_bad_version_is_stopped_and_everything_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    monkeypatch.setattr(webhooks, "FIRST_WAIT", 0.01)
    with Receiver(500, 429) as receiver:
        hooks = [
            {"url": receiver.url, "secret": "${HOOK_SECRET}"},
            {"url": "http://127.0.0.1:9/lost", "events": ["store"]},
        ]
        with running(settings(tmp_path, STRICT, webhooks=hooks)) as client:
            gate = client.get("/v1/gate").json()
            assert (gate["pass"], gate["verdict"]) == (True, "pass")
            report(client, "old", 40, lambda k: 0)
            report(client, "new", 12, lambda k: int(k % 2 == 0))
            gate = client.get("/v1/gate").json()
            assert (gate["pass"], gate["verdict"], gate["share"]) == (False, "fail", 0)
            assert "shown to lose more than 0.05" in gate["reason"]
            assert gate["alarm"] == 1
            refused = client.post("/v1/gate", json={"phase": "Progressing"})
            assert refused.status_code == 412
            assert "fail: alarm 1 stands" in refused.json()["error"]["message"]
            status = told(client, "/v1/status", lambda each: each["verdict"] == "fail")
            assert (status["alarm"]["monitor"], status["share"]) == ("stop", 0)
            assert "; the old one 0" in status["alarm"]["message"]
            assert status["alarm"]["message"] in status["state"]
            metrics = client.get("/metrics").text
            for name in ("alarm_standing", "gate_failing"):
                assert f'tether_{name}{{release="release"}} 1.0' in metrics
            done, again = (client.post("/v1/resume", json={"reason": "mended"}) for _ in range(2))
            assert (done.json(), again.status_code) == ({"halted": False}, 409)
            kinds = {"alarm", "resume", "step"}
            until(lambda: {each["event"] for each in receiver.requests} == kinds)
    first = receiver.requests[0]
    assert first["id"] == "release/alarm/1"
    assert [each["id"] for each in receiver.requests[:3]] == [first["id"]] * 3  # 500, 429, 200
    assert "shown to lose more than 0.05" in first["text"]
    headers, body = receiver.received[2]
    signed = f"{headers['Tether-Timestamp']}.".encode() + body
    expected = hmac.new(b"s3cret", signed, sha256).hexdigest()
    assert headers["Tether-Signature"] == f"v1={expected}"
    assert headers["Tether-Event-Id"] == first["id"]
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []
        assert [each.act for each in run.history().acts] == ["resume"]


@pytest.mark.parametrize(
    ("guardrail", "old", "limit"),
    [(0.05, {"complaint": 0.01}, "0.05;"), ({"delta": 0.05, "ratio": 0.5}, {}, "0.3959;")],
)
def test_a_mean_that_is_shown_to_exceed_fails_the_gate_without_a_stop(
    tmp_path, guardrail, old, limit
):
    """The reason and the verdict agree, also where the stop is turned off."""
    guardrails = {"complaint": guardrail, "latency": {"tolerated": 1.0, "bound": 2}}
    release = {"guardrails": guardrails, "old": old | {"latency": 0.1}, "stop": "none"}
    with running(settings(tmp_path, release)) as client:
        for system, bad in (("old", 10), ("new", 1)):
            report(client, system, 120, lambda k, bad=bad: int(k % bad == 0))
        gate = told(client, "/v1/gate", lambda each: not each["pass"])
        assert (gate["verdict"], gate["alarm"]) == ("fail", None)
        exceeds = f"complaint: the new system's mean of 1 on 120 rows is shown to exceed {limit}"
        assert exceeds in gate["reason"]
        status = client.get("/v1/status").json()
        assert (status["verdict"], status["losses"]["latency"]["bound"]) == ("fail", 2)
        assert status["losses"]["complaint"]["new"]["lower"] > 0.5
        assert status["losses"]["complaint"]["promise"] == (0.05 if limit == "0.05;" else None)
        assert exceeds in " ".join(status["warnings"])


def test_steps_by_hand_and_the_weight_of_the_gate(tmp_path):
    with running(settings(tmp_path, STRICT)) as client:
        before = client.get("/v1/status").json()["share"]
        report(client, "new", 30, lambda k: 0)
        begun = client.post("/v1/advance", json={"step": 1, "reason": "a week is over"}).json()
        assert begun["step"] == 2
        assert begun["share"] > before
        assert client.post("/v1/advance", json={"step": 1}).json() == begun  # it may be repeated
        assert client.post("/v1/advance", json={"step": 5}).status_code == 409
        waits = client.get("/v1/gate", params={"weight": 90}).json()
        assert (waits["pass"], waits["verdict"]) == (False, "wait")
        assert "less than 90 %" in waits["reason"]
        passes = client.get("/v1/gate", params={"weight": 0}).json()
        assert (passes["pass"], passes["verdict"]) == (True, "pass")
        for wrong in ("weight=0.3", "weight=101", "weight=x", "share=3"):
            assert client.get(f"/v1/gate?{wrong}").status_code == 400


def test_several_releases_in_one_service(tmp_path):
    releases = {name: LENIENT | {"store": f"{name}.db"} for name in ("checkout", "search")}
    releases["search"]["flag"] = {"key": "find"}
    with running(settings(tmp_path, releases=releases)) as client:
        for name in releases:
            found = client.post(f"/{name}/v1/decisions", json={"key": "ann"}).json()
            assert found["stored"]
        assert client.post("/v1/decisions", json={"key": "ann"}).status_code == 404
        client.post("/checkout/v1/halt", json={"reason": "a rumour"})
        assert client.get("/checkout/v1/gate").json()["verdict"] == "fail"
        assert client.get("/search/v1/gate").json()["verdict"] == "pass"
        path, asked = "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "ann"}}
        flags = client.post(path, json=asked)
        assert [each["key"] for each in flags.json()["flags"]] == ["checkout", "find"]
        assert client.get("/search/").text.startswith("<!doctype html>")
        assert client.get("/search/v1/document").json()["document"]["title"] == "find"
        metrics = client.get("/metrics").text
        assert 'tether_alarm_standing{release="checkout"} 1.0' in metrics
        assert 'tether_alarm_standing{release="find"} 0.0' in metrics
    assert {path.name for path in tmp_path.glob("*.db")} == {"checkout.db", "search.db"}


def test_two_releases_with_one_store_are_refused(tmp_path):
    """However the store is named: else the keys and losses of one would count for the other."""
    stores = {"checkout": "one.db", "search": f"sqlite:///{tmp_path}/one.db"}
    releases = {name: LENIENT | {"store": store} for name, store in stores.items()}
    with pytest.raises(ValueError, match="'checkout' and 'search' must have stores of their own"):
        make_application(settings(tmp_path, releases=releases))


def documents(name):
    """The manifests of a file by kind and name."""
    loaded = yaml.safe_load_all((EXAMPLES / "kubernetes" / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in loaded}


def measure(metric, client, arguments):
    """What Argo Rollouts makes of an answer, for the conditions that the example has."""
    web = metric["provider"]["web"]

    def filled(text):
        return re.sub(r"\{\{\s*args\.([\w-]+)\s*\}\}", lambda name: arguments[name[1]], text)

    path = filled(web["url"]).removeprefix("http://tether:8080")
    headers = {each["key"]: filled(each["value"]) for each in web["headers"]}
    if not (found := client.get(path, headers=headers)).is_success:
        return "Error"
    passes, verdict = (found.json()[name] for name in ("pass", "verdict"))
    conditions = {
        "result.pass": passes,
        'result.verdict != "fail"': verdict != "fail",
        'result.verdict == "fail"': verdict == "fail",
    }
    if conditions[metric["failureCondition"]]:
        return "Failed"
    return "Successful" if conditions[metric["successCondition"]] else "Inconclusive"


def test_the_examples_for_argo_rollouts_and_flagger(tmp_path):
    argo, service = documents("argo-rollouts.yml"), documents("service.yml")
    gate, verdict = (
        argo["AnalysisTemplate", name]["spec"]["metrics"][0]
        for name in ("tether-gate", "tether-verdict")
    )
    file = tmp_path / "keys.json"
    read, operate = (add_key(file, role, [role]) for role in ("read", "operate"))
    secret = argo["AnalysisTemplate", "tether-gate"]["spec"]["args"][1]["valueFrom"]["secretKeyRef"]
    assert secret["key"] in service["Secret", secret["name"]]["stringData"]
    flagger = documents("flagger.yml")["Canary", "checkout"]["spec"]["analysis"]["webhooks"]
    with running(settings(tmp_path, access={"keys": "keys.json"})) as client:

        def at(weight, key=read):
            return measure(gate, client, {"weight": weight, "api-key": key})

        def flagged():
            paths = (each["url"].partition(":8080")[2] for each in flagger)
            return [client.post(path, json={}, auth=("x", read)).status_code for path in paths]

        assert (at("10"), at("90")) == ("Successful", "Inconclusive")
        assert at("10", "tether_wrong") == "Error"
        assert measure(verdict, client, {"api-key": read}) == "Successful"
        assert flagged() == [200, 412]
        client.post("/v1/halt", json={"reason": "a rumour"}, headers=bearer(operate))
        assert at("10") == measure(verdict, client, {"api-key": read}) == "Failed"
        assert flagged() == [412, 412]
        status = client.get("/v1/status", headers=bearer(read)).json()
        assert status["alarm"]["monitor"] == "halt"
    with Run.open(tmp_path / "release.db") as run:
        (act,) = run.history().acts
    assert (act.act, act.reason, act.actor) == ("halt", "a rumour", "operate")
    steps = argo["Rollout", "checkout"]["spec"]["strategy"]["canary"]["steps"]
    weights = [str(each["setWeight"]) for each in steps if "setWeight" in each]
    asked = [each["analysis"]["args"][0]["value"] for each in steps if "analysis" in each]
    assert asked == [*weights, "100"]  # each is asked for before it is set


def test_a_receiver_that_refuses_is_given_up_and_one_that_hangs_holds_nothing_up(tmp_path):
    held = Event()
    with Receiver(400) as refusing, Receiver(held, held, held) as slow:
        usual = {"deadline": 0.2, "events": ["halt"]}
        hooks = [usual | {"url": refusing.url, "format": "text"}, usual | {"url": slow.url}]
        with running(settings(tmp_path, webhooks=hooks)) as client:
            client.post("/v1/halt", json={"reason": "x"})
            for result, place in (("given_up", 1), ("failed", 2)):
                line = f'attempts_total{{result="{result}",webhook="{place}"}}'
                until(lambda line=line: line in client.get("/metrics").text)
        held.set()
    assert refusing.requests == [{"text": "release: halt 1: x"}]
    assert slow.requests[0]["event"] == "halt"
