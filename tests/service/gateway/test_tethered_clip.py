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
