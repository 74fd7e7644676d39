"""The examples of a deployment: what they name is there, and their settings are valid."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.service.operating.test_gate import FLAGGER, HALF
from tests.service.running import bearer, running, settings
from tether.service import ApiKeys, add_key, read_service_settings

EXAMPLES = Path(__file__).parents[2] / "examples"


def documents(name):
    """The manifests of a file by kind and name."""
    loaded = yaml.safe_load_all((EXAMPLES / "kubernetes" / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in loaded}


@pytest.fixture(scope="module")
def service():
    return documents("service.yml")


def test_the_deployment_runs_the_settings_that_it_mounts(service, tmp_path, monkeypatch):
    pod = service["Deployment", "tether"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    command, path = container["args"]
    assert (command, path) == ("serve", f"{mounts['config']}/serve.toml")
    (variable,) = container["env"]
    wanted = variable["valueFrom"]["secretKeyRef"]
    assert wanted["key"] in service["Secret", wanted["name"]]["stringData"]
    monkeypatch.setenv(variable["name"], "postgresql://ann:word@db/x")
    for name, content in (("config", "serve.toml"), ("keys", "keys.json")):
        folder = tmp_path / mounts[name].lstrip("/")
        folder.mkdir(parents=True)
        if content == "serve.toml":
            (folder / content).write_text(service["ConfigMap", "tether"]["data"][content])
        else:
            assert content in service["Secret", "tether"]["stringData"]
            add_key(folder / content, "ann", ["read"])
    found = read_service_settings(tmp_path / path.lstrip("/"))
    assert found.store == "postgresql://ann:word@db/x"
    (port,) = container["ports"]
    assert (found.host, found.port) == ("0.0.0.0", port["containerPort"])
    assert service["Service", "tether"]["spec"]["ports"][0]["port"] == found.port
    labels = service["Deployment", "tether"]["spec"]["template"]["metadata"]["labels"]
    assert service["Service", "tether"]["spec"]["selector"] == labels
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert str(found.spool) == mounts["spool"]  # the only folder that can be written
    read_only = {each["name"] for each in container["volumeMounts"] if each.get("readOnly")}
    assert read_only == mounts.keys() - {"spool"}
    assert pod["securityContext"]["runAsNonRoot"]


def test_probes_ask_paths_that_need_no_key(service, client):
    (container,) = service["Deployment", "tether"]["spec"]["template"]["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]
        assert client.endpoints.role_of(client.endpoints.route_of(path)) is None


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


def test_flagger_asks_the_gate_with_the_password_of_its_url(tmp_path):
    webhooks = documents("flagger.yml")["Canary", "checkout"]["spec"]["analysis"]["webhooks"]
    file = tmp_path / "keys.json"
    secret = add_key(file, "flagger", ["read"])
    given = settings(tmp_path / "release.db", release=HALF, keys=ApiKeys.read(file))
    with running(given) as client:
        for webhook, status in zip(webhooks, (200, 412), strict=True):
            host = f"{client.base_url.host}:{client.base_url.port}"
            url = webhook["url"].replace("REPLACE", secret).replace("tether:8080", host)
            assert client.post(url, json=FLAGGER).status_code == status


def test_the_unit_of_systemd_is_valid(tmp_path):
    program = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not installed")
    unit = (EXAMPLES / "deploy" / "tether.service").read_text()
    assert "ExecStart=/opt/tether/bin/tether serve " in unit
    (tmp_path / "tether.service").write_text(unit.replace("/opt/tether/bin/tether", "/bin/true"))
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / "tether.service")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_runs_as_nobody_and_is_pinned():
    text = (EXAMPLES / "deploy" / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    instructions = [tuple(line.split(" ", 1)) for line in lines]
    images = [rest.split()[0] for word, rest in instructions if word == "FROM"]
    assert all(re.fullmatch(r"docker\.io/library/python:\d\.\d+-slim", each) for each in images)
    last = dict(instructions)
    assert last["USER"] != "0"
    assert json.loads(last["ENTRYPOINT"]) + json.loads(last["CMD"])[:1] == ["tether", "serve"]
    check = json.loads(last["HEALTHCHECK"].partition(" CMD ")[2])
    compile(check[-1], "HEALTHCHECK", "exec")
    assert f"127.0.0.1:{last['EXPOSE']}/healthz" in check[-1]


def test_the_settings_for_postgresql_are_valid(tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_STORE", "postgresql://tether@db.example.org/tether")
    monkeypatch.setenv("ALERTS_SECRET", "hush")
    shutil.copy(EXAMPLES / "deploy" / "serve.toml", tmp_path)
    add_key(tmp_path / "keys.json", "ann", ["read"])
    found = read_service_settings(tmp_path / "serve.toml")
    assert found.store == "postgresql://tether@db.example.org/tether"
    assert found.release["promise"] is True
    assert str(found.spool) == "/var/lib/tether"
    assert len(found.webhooks) == 1
