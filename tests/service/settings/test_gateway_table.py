"""The table of the gateway in the TOML file."""

from pathlib import Path

import pytest

from tether.service import GatewaySettings, UpstreamSettings, read_service_settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "gateway.toml"
TWO = """
[release]
store = "a.db"
[gateway.old]
url = "http://127.0.0.1:8000/v1/"
[gateway.new]
url = "https://api.example.org/v1"
"""
FULL = """
[release]
store = "a.db"
[gateway]
failure_guardrail = "failure"
latency_guardrail = "slow"
slow_after = 3
failures_until_pause = 2
pause = 30
[gateway.old]
url = "http://10.0.0.1:8000/v1"
[gateway.new]
url = "http://10.0.0.2/v1"
model = "tuned"
api_key_variable = "TETHER_TEST_UPSTREAM_KEY"
connect_within = 1
first_byte_within = 2
chunk_within = 3
finish_within = 4
"""


def read(folder, text):
    (folder / "serve.toml").write_text(text)
    return read_service_settings(folder / "serve.toml")


def test_everything_may_be_set(tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_TEST_UPSTREAM_KEY", "sk-secret\n")
    found = read(tmp_path, FULL).gateway
    new = UpstreamSettings("http://10.0.0.2/v1", "tuned", "sk-secret", 1.0, 2.0, 3.0, 4.0)
    old = UpstreamSettings("http://10.0.0.1:8000/v1")
    assert found == GatewaySettings(old, new, "failure", "slow", 3.0, 2, 30.0)
    assert found.guardrails == {"failure_guardrail": "failure", "latency_guardrail": "slow"}
    assert "sk-secret" not in repr(found)


def test_two_urls_are_enough(tmp_path):
    found = read(tmp_path, TWO).gateway
    assert (found.old.url, found.new.url) == (
        "http://127.0.0.1:8000/v1",
        "https://api.example.org/v1",
    )
    assert found.guardrails == {}
    assert read(tmp_path, '[release]\nstore = "a.db"').gateway is None


def test_the_example_is_valid():
    found = read_service_settings(EXAMPLE)
    assert found.gateway.failure_guardrail in found.release["guardrails"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gateway]", "gateway.old.url is missing"),
        ('[gateway.old]\nurl = "http://a/v1"', "gateway.new.url is missing"),
        ("[gateway]\nold = 3", r"\[gateway.old\] must be a table, got 3"),
        (TWO + "[gateway.other]", "gateway.other is no setting"),
        (TWO + "key = 1", "gateway.new.key is no setting, got 1; there are url, model"),
        (TWO + "connect_within = 0", "gateway.new.connect_within must be a number from 0.001"),
        (TWO + 'api_key_variable = "TETHER_UNSET"', "'TETHER_UNSET', which is not set"),
        (TWO + "[gateway]\npause = -1", "gateway.pause must be a number"),
    ],
)
def test_errors_name_the_setting_and_show_the_value(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"serve\.toml.*({message})"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "url",
    [
        "api.example.org/v1",
        "ftp://a/v1",
        "http:///v1",
        "http://a:99999/v1",
        "http://a b/v1",
        "http://ann:hunter2@a/v1",
        "http://a/v1?key=hunter2",
        "http://a/v1#hunter2",
        "http://ä/v1",
    ],
)
def test_urls_that_are_wrong_or_have_secrets_are_refused_and_not_shown(tmp_path, url):
    with pytest.raises(ValueError, match=r"gateway\.new\.url must ") as found:
        read(tmp_path, TWO.replace("https://api.example.org/v1", url))
    assert url not in str(found.value)
    assert "hunter2" not in str(found.value)


def test_a_key_that_no_header_can_carry_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_TEST_UPSTREAM_KEY", "sk secret")
    with pytest.raises(ValueError, match="api_key_variable: api_key must be printable") as found:
        read(tmp_path, FULL)
    assert "secret" not in str(found.value)


def test_one_guardrail_cannot_have_both_losses(tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_TEST_UPSTREAM_KEY", "k")
    with pytest.raises(ValueError, match="must be two guardrails, got 'slow' for both"):
        read(tmp_path, FULL.replace('"failure"', '"slow"'))
