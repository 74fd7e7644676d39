"""The OpenFeature Remote Evaluation Protocol, with the real SDK and provider for JavaScript."""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.service.running import running, settings
from tether.release import ArmCounts, is_new, positions
from tether.service import ApiKeys, add_key

FOLDER = Path(__file__).with_name("javascript")
NPM_SECONDS = 120
"""How long the installation of the packages may take."""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Runs node where the packages are installed, once for each version of their list."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        pytest.skip("node and npm are not installed (apt-get install nodejs npm)")
    lists = [FOLDER / "package.json", FOLDER / "package-lock.json"]
    version = sha256(b"".join(each.read_bytes() for each in lists)).hexdigest()[:16]
    cache = Path(sys.prefix) / f"javascript-{version}"
    if not (cache / "node_modules").is_dir():
        made = tmp_path_factory.mktemp("javascript")
        for each in lists:
            shutil.copy(each, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
        try:
            done = subprocess.run(
                command, cwd=made, capture_output=True, text=True, timeout=NPM_SECONDS
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not install the packages within {NPM_SECONDS} s")
        if done.returncode:
            pytest.skip(f"npm could not install the packages: {done.stderr[-300:]}")
        try:
            made.rename(cache)
        except OSError:  # another process has done it, or it is another file system
            cache = cache if (cache / "node_modules").is_dir() else made

    def evaluate(asked):
        command = [program, str(FOLDER / "evaluate.mjs")]
        done = subprocess.run(
            command, cwd=cache, input=json.dumps(asked), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return evaluate


def question(client, key, flag="checkout", kind="string", default="?"):
    context = {"plan": "free"} | ({} if key is None else {"targetingKey": key})
    url = str(client.base_url)
    return {"url": url, "type": kind, "flag": flag, "default": default, "context": context}


def test_the_sdk_gets_what_the_hash_says_and_understands_errors(tmp_path, node):
    release = {"guardrails": {"complaint": 0.4}, "old": {"complaint": ArmCounts(10_000, 0.0)}}
    given = settings(tmp_path / "release.db", release=release, flag="checkout")
    keys = [f"user {number}" for number in range(12)]
    with running(given) as client:
        share = client.get("/v1/status").json()["share"]
        asked = [question(client, key) for key in keys]
        asked.append(question(client, None))
        asked.append(question(client, "ann", flag="nothing"))
        asked.append(question(client, "ann", kind="number", default=3))
        found = node(asked)
    expected = ["new" if new else "old" for new in is_new(positions(keys, b"test"), share)]
    assert {*expected} == {"old", "new"}
    assert [each["value"] for each in found[:12]] == expected
    assert [each["variant"] for each in found[:12]] == expected
    assert {each["reason"] for each in found[:12]} == {"SPLIT"}
    assert found[0]["flagMetadata"] == {"stored": True}
    no_key, no_flag, wrong_type = found[12:]
    assert (no_key["value"], no_key["errorCode"]) == ("?", "TARGETING_KEY_MISSING")
    assert (no_flag["value"], no_flag["errorCode"]) == ("?", "FLAG_NOT_FOUND")
    assert (wrong_type["value"], wrong_type["errorCode"]) == (3, "TYPE_MISMATCH")


def test_booleans_api_keys_and_the_default_when_the_service_is_down(tmp_path, node):
    secret = add_key(tmp_path / "keys.json", "shop", ["decide"])
    given = settings(
        tmp_path / "release.db",
        keys=ApiKeys.read(tmp_path / "keys.json"),
        values={"old": False, "new": True},
        flag="checkout",
    )
    with running(given) as client:
        asked = question(client, "ann", kind="boolean", default=True)
        without_key = asked | {"url": asked["url"].replace("127.0.0.1", "localhost")}
        down = asked | {"url": "http://127.0.0.1:1"}
        found, *errors = node([asked | {"key": secret}, without_key, down])
    assert (found["value"], found["variant"], found["reason"]) == (False, "old", "SPLIT")
    assert len(errors) == 2
    for each in errors:
        assert (each["value"], each["reason"], each["errorCode"]) == (True, "ERROR", "GENERAL")
