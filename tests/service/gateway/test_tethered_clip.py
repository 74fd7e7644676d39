"""Completions under a budgeted clip or as the best of N, in front of a server with scores."""

import numpy as np
import openai
import pytest
import torch

pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback
from tests.service.running import PATIENT, running, tries
from tether.rounds import verify_store
from tether.service import read_service_settings
from tether.service.settings.clip_table import ClipSettings
from tether.service.settings.service_settings import ServiceSettings
from tether.service.settings.tethered_table import SafeUpstream, TetheredSettings

WIDTH, CANDIDATES = 3, 5


def settings(store, url, tokenizer=None, budget=4):
    upstreams = [SafeUpstream(url, name, timeout=30.0, retries=0) for name in ("base", "tuned")]
    tethered = TetheredSettings(
        str(store),
        upstreams[0],
        new=upstreams[1],
        clip=ClipSettings(budget, WIDTH, (0,), tokenizer),
        candidates=CANDIDATES,
        controller={"alpha": 0.5, "draws": 4},
        requests_at_once=8,
    )
    return ServiceSettings(str(store), tethered=tethered, port=0, limits=PATIENT)


@pytest.fixture(scope="module")
def server():
    base, tuned = (tiny_models.llama(scale=0.3, seed=seed) for seed in (0, 1))
    with torch.no_grad():  # mostly the first model, so that chance cannot make beta 0
        for theirs, ours in zip(tuned.parameters(), base.parameters(), strict=True):
            theirs.copy_(ours + 0.05 * theirs)
    with Loopback({"base": base, "tuned": tuned}) as made:
        yield made


@pytest.mark.parametrize("budget", [4, None], ids=["clip", "best of N"])
def test_collect_begin_act(server, tmp_path, budget):
    store, asked = tmp_path / "clip.db", len(server.requests)
    with running(settings(store, server.url, budget=budget)) as client:
        chat = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)
        raw = chat.completions.with_raw_response.create(
            model="any", prompt=[5, 7], max_tokens=WIDTH
        )
        made, headers = raw.parse(), raw.headers
        tokens = [int(each) for each in made.choices[0].text.split()]
        assert 0 < len(tokens) <= WIDTH
        assert made.choices[0].finish_reason in ("stop", "length")
        drawn = "1" if budget else str(CANDIDATES)
        assert (headers["x-tether-served"], headers["x-tether-draws"]) == ("safe", drawn)
        draws = [each for each in server.requests[asked:] if each.get("prompt_logprobs") is None]
        assert [each["n"] for each in draws] == [int(drawn)], "one request has all candidates"
        assert made.usage.completion_tokens >= len(tokens)
        run = client.server.config.app.state.service.run
        run.observe([int(headers["x-tether-id"])], {"loss": [0.0]})
        taken = run.act(np.array(["5 7", "4"] * 16))
        run.observe(taken.ids.tolist(), {"loss": np.zeros(32)})
        assert client.post("/v1/begin", json={"round": 1, "reason": "x"}).status_code == 202
        for _ in tries():
            status = client.get("/v1/status").json()
            if status["round"] == 2 and not status["beginning"]:
                break
            assert not status["begin_failure"], status
        assert float(status["beta"]) > 0
        body = {"prompt": [5, 7], "stream": True}
        chat.close()
        raw = client.post("/v1/completions", json=body)
        assert raw.headers["x-tether-served"] == "round 2"
        assert int(raw.headers["x-tether-draws"]) >= int(drawn)
        assert raw.text.endswith("data: [DONE]\n\n")
    assert verify_store(store).ok


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": "text"}, "no tokenizer"),
        ({"prompt": [5], "temperature": 0.5}, "temperature must be 1"),
        ({"prompt": [5], "max_tokens": 9}, "max_tokens must be 3"),
        ({"prompt": [5], "logit_bias": {}}, "cannot be set"),
        ({"prompt": [5], "n": 2}, "n must be 1"),
        ({}, "must have prompt"),
    ],
)
def test_draws_are_as_the_settings_say(server, tmp_path_factory, body, message):
    with running(settings(tmp_path_factory.mktemp("clip") / "clip.db", server.url)) as client:
        answer = client.post("/v1/completions", json=body)
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]
        chat = {"messages": [{"role": "user", "content": "x"}]}
        assert "chat template" in client.post("/v1/chat/completions", json=chat).text


def test_settings_are_read(tmp_path):
    path = tmp_path / "serve.toml"
    start = (
        '[gateway]\nmode = "tethered"\nstore = "a.db"\nalpha = 0.1\nfamily = "{family}"\n{more}\n'
    )
    end = '[gateway.old]\nurl = "http://a/v1"\n[gateway.new]\nurl = "http://b/v1"\nmodel = "m"\n'
    path.write_text(start.format(family="clip", more="eos_token_id = [1, 2]\nbudget = 3") + end)
    made = read_service_settings(path).tethered
    assert made.clip == ClipSettings(3, 64, (1, 2))
    assert (made.new.model, made.scorer) == ("m", None)
    assert made.controller == {"alpha": 0.1}
    path.write_text(start.format(family="mix", more="eos_token_id = 1\ncandidates = 6") + end)
    made = read_service_settings(path).tethered
    assert (made.clip.budget, made.candidates) == (None, 6)
    assert made.controller == {"alpha": 0.1, "family": "mix"}
    for family, more, message in (
        ("mix", "eos_token_id = 1", "family must be 'clip'"),
        ("clip", "eos_token_id = 1\nbudget = 2\ncandidates = 6", "give one of them"),
        ("clip", "", "eos_token_id must be a token id"),
        ("clip", "eos_token_id = [true]", "eos_token_id must be a token id"),
    ):
        path.write_text(start.format(family=family, more=more) + end)
        with pytest.raises(ValueError, match=message):
            read_service_settings(path)
