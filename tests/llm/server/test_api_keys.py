"""The API key is sent, and is shown nowhere."""

import json
import logging
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import OpenAIPolicy
from tether.llm.server import api_keys
from tether.llm.server.server_error import ServerError

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])


KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3)}


def test_the_key_is_sent_and_never_shown(models, caplog, capsys):
    with Loopback(models, key=KEY) as running, caplog.at_level(logging.DEBUG):
        policy = remote_policy(running, api_key=KEY)
        policy.sample(PROMPTS, np.random.default_rng(0))
        assert running.headers[0]["Authorization"] == f"Bearer {KEY}"
        running.key = "another"  # the server repeats what it was sent in its refusal
        with pytest.raises(ServerError, match="status 401") as raised:
            policy.sample(PROMPTS, np.random.default_rng(0))
    printed = capsys.readouterr()
    everything = [str(raised.value), repr(policy), repr(policy.client), caplog.text, *printed]
    assert not any(KEY in text for text in everything)
    assert "(key)" in str(raised.value)


def test_a_key_from_a_file_is_stripped(models, tmp_path):
    (tmp_path / "key").write_text(f" {KEY}\n")
    with Loopback(models, key=KEY) as running:
        policy = remote_policy(running, api_key=(tmp_path / "key").read_text())
        assert policy.sample([[4]], np.random.default_rng(0)).shape == (1, 5)
        remote_policy(running, api_key=None)
        running.key = None
        remote_policy(running, api_key="\n").sample([[4]], np.random.default_rng(0))
        assert "Authorization" not in running.headers[-1]


@pytest.mark.parametrize(
    "key", ["sk-secret 123", "sk-secret\n123", "sk-sécret", "sk-secret\x00", b"sk"]
)
def test_a_key_that_no_header_can_carry_is_refused(key):
    with pytest.raises((ValueError, TypeError), match="api_key must be") as raised:
        OpenAIPolicy("http://localhost:1/v1", "base", eos_token_id=0, api_key=key)
    assert "sk" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.parametrize("room", range(470, 501, 5))
def test_a_truncated_message_shows_no_part_of_the_key(models, room):
    with Loopback(models) as running:
        running.answer = lambda body: (400, {"error": {"message": "x" * room + KEY + "y" * 99}})
        with pytest.raises(ValueError, match="status 400: x") as raised:
            remote_policy(running, api_key=KEY).sample([[4]], np.random.default_rng(0))
    assert "sk-" not in str(raised.value)
    assert len(str(raised.value)) < 600


def test_a_key_is_hidden_however_it_is_written():
    key = "sk/a+b='c\\d\"%e"
    assert api_keys.check_key(key) == key
    for written in (key, repr(key), repr([key]), json.dumps(key), quote(key), quote(key, safe="")):
        assert api_keys.hide_key(f"got {written}.", key).strip("got[]'\". ") == "(key)"
    assert api_keys.hide_key("got sk%2fa.", "sk/a") == "got (key)."
    assert api_keys.hide_key("nothing", None) == "nothing"
