"""The examples of a deployment: what they name is there, and their settings are valid."""

import re
from pathlib import Path

import pytest
import yaml

from tests.service.operating.test_gate import HALF
from tests.service.running import bearer, running, settings
from tether.service import ApiKeys, add_key

EXAMPLES = Path(__file__).parents[2] / "examples"


def documents(name):
    """The manifests of a file by kind and name."""
    loaded = yaml.safe_load_all((EXAMPLES / "kubernetes" / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in loaded}


@pytest.fixture(scope="module")
def service():
    return documents("service.yml")


def measure(metric, client, arguments):
    """What Argo Rollouts makes of an answer, for the conditions that the example has."""
    web = metric["provider"]["web"]

    def filled(text):
        return re.sub(r"\{\{\s*args\.([\w-]+)\s*\}\}", lambda name: arguments[name[1]], text)

    path = filled(web["url"]).removeprefix("http://tether:8080")
    headers = {each["key"]: filled(each["value"]) for each in web["headers"]}
    found = client.get(path, headers=headers)
    if not 200 <= found.status_code < 300:
        return "Error"
    result = found.json() if web["jsonPath"] == "{$}" else found.json()["pass"]
    conditions = {
        "result == true": result is True,
        "result.pass": isinstance(result, dict) and result["pass"],
        "result.alarm != nil": isinstance(result, dict) and result["alarm"] is not None,
    }
    if "failureCondition" in metric and conditions[metric["failureCondition"]]:
        return "Failed"
    if conditions[metric["successCondition"]]:
        return "Successful"
    return "Inconclusive" if "failureCondition" in metric else "Failed"


def test_argo_rollouts_goes_on_pauses_and_aborts(service, tmp_path):
    found = documents("argo-rollouts.yml")
    gate, alarm = (
        found["AnalysisTemplate", name]["spec"]["metrics"][0]
        for name in ("tether-gate", "tether-alarm")
    )
    secret = found["AnalysisTemplate", "tether-gate"]["spec"]["args"][1]["valueFrom"][
        "secretKeyRef"
    ]
    assert secret["key"] in service["Secret", secret["name"]]["stringData"]
    file = tmp_path / "keys.json"
    read, operate = (add_key(file, role, [role]) for role in ("read", "operate"))
    given = settings(tmp_path / "release.db", release=HALF, keys=ApiKeys.read(file))

    def at(weight, key=read):
        return measure(gate, client, {"weight": weight, "api-key": key})

    with running(given) as client:
        assert [at("10"), at("50"), at("10", "tether_wrong")] == [
            "Successful",
            "Inconclusive",
            "Error",
        ]
        assert measure(alarm, client, {"api-key": read}) == "Successful"
        client.post("/v1/halt", json={"reason": "a rumour"}, headers=bearer(operate))
        assert at("10") == measure(alarm, client, {"api-key": read}) == "Failed"
    steps = found["Rollout", "checkout"]["spec"]["strategy"]["canary"]["steps"]
    weights = [str(each["setWeight"]) for each in steps if "setWeight" in each]
    asked = [each["analysis"]["args"][0]["value"] for each in steps if "analysis" in each]
    assert asked == [*weights, "100"]  # each is asked for before it is set
    assert "analysis" in steps[0]
