"""The OpenFeature Remote Evaluation Protocol, with the real SDKs for Python and JavaScript."""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from tests.service.running import keys_of, running, settings
from tether.runs import Run
from tether.service.access import add_key

FOLDER = Path(__file__).with_name("javascript")
NPM_SECONDS = 120
"""How long the installation of the packages may take."""


@pytest.fixture
def openfeature():
    """Makes clients of the SDK; providers are global there, so each test cleans up."""

    def make(http, **options):
        api.set_provider(OFREPProvider(str(http.base_url), **options))
        return api.get_client()

    yield make
    api.shutdown()
    api.clear_providers()


def test_python_gets_what_was_decided_and_understands_errors(tmp_path, openfeature):
    with running(settings(tmp_path, {"flag": {"key": "checkout", "old": 1.5, "new": 2.5}})) as http:
        sdk = openfeature(http)
        for system, value in (("old", 1.5), ("new", 2.5)):
            for key in keys_of(http, system, 3):
                found = sdk.get_float_details("checkout", 0.0, EvaluationContext(key))
                assert (found.value, found.variant) == (value, system)
                assert (found.reason, found.flag_metadata) == (Reason.SPLIT, {"stored": True})
        missing = sdk.get_float_details("nothing", 0.0, EvaluationContext("ann"))
        assert (missing.value, missing.error_code) == (0.0, ErrorCode.FLAG_NOT_FOUND)
        no_key = sdk.get_float_details("checkout", 0.0, EvaluationContext(None, {"plan": "free"}))
        assert no_key.error_code == ErrorCode.TARGETING_KEY_MISSING
        too_long = sdk.get_float_details("checkout", 0.0, EvaluationContext("x" * 501))
        assert too_long.error_code == ErrorCode.INVALID_CONTEXT
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []


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
            subprocess.run(command, cwd=made, capture_output=True, check=True, timeout=NPM_SECONDS)
        except subprocess.SubprocessError as error:
            pytest.skip(f"npm could not install the packages: {error}")
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


def question(client, key, flag="release", kind="string", default="?"):
    context = {"plan": "free"} | ({} if key is None else {"targetingKey": key})
    url = str(client.base_url)
    return {"url": url, "type": kind, "flag": flag, "default": default, "context": context}


def test_javascript_gets_what_was_decided_and_understands_errors(client, node):
    keys = {system: keys_of(client, system, 4) for system in ("old", "new")}
    asked = [question(client, key) for system in keys for key in keys[system]]
    wrong = [question(client, None), question(client, "ann", flag="nothing")]
    found = node([*asked, *wrong, question(client, "ann", kind="number", default=3)])
    assert [each["value"] for each in found[:8]] == ["old"] * 4 + ["new"] * 4
    assert all(each["reason"] == "SPLIT" and each["flagMetadata"]["stored"] for each in found[:8])
    errors = [("?", "TARGETING_KEY_MISSING"), ("?", "FLAG_NOT_FOUND"), (3, "TYPE_MISMATCH")]
    assert [(each["value"], each["errorCode"]) for each in found[8:]] == errors


def test_javascript_with_an_api_key_and_the_default_when_the_service_is_down(tmp_path, node):
    secret = add_key(tmp_path / "keys.json", "shop", ["decide"])
    flag = {"key": "checkout", "old": False, "new": True}
    with running(settings(tmp_path, {"flag": flag}, access={"keys": "keys.json"})) as client:
        asked = question(client, "ann", "checkout", kind="boolean", default=True)
        without_key = asked | {"url": asked["url"].replace("127.0.0.1", "localhost")}
        down = asked | {"url": "http://127.0.0.1:1"}
        found, *errors = node([asked | {"key": secret}, without_key, down])
    assert found["value"] == (found["variant"] == "new")
    assert len(errors) == 2
    for each in errors:
        assert (each["value"], each["reason"], each["errorCode"]) == (True, "ERROR", "GENERAL")
