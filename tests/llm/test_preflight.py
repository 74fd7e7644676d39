"""Preflight passes what is right and notices what is not; with real models and a real server."""

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs tether[api]")
pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy, Preflight, preflight
from tether.llm.openai_policy import LikelyTokens
from tether.llm.preflight_checks import LOG_WEALTH, bet_on_tokens

TEXTS = np.array(["a", "cat", "what", "we"])
IDS = np.array([[5, 7, 9], [4, 8, 6], [6, 6, 6], [9, 9, 5]])


def status(result, name):
    return {check.status for check in result.checks if name in check.name}


def pair(**options):
    model = tiny_models.with_adapters(tiny_models.llama(scale=0.2), "tuned")
    return [tiny_models.policy(model, each, **options) for each in (None, "tuned")]


def test_two_adapters_pass_and_the_result_is_saved(tmp_path):
    result = preflight(*pair(), TEXTS, np.random.default_rng(0))
    assert result.passed, str(result)
    assert 1 <= result.ratio_error < 1.01
    assert result.divergence > 0
    assert f"{result.divergence:.2g} nats" in str(result)
    result.save(tmp_path / "preflight.json")
    assert Preflight.load(tmp_path / "preflight.json") == result


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"scale": 1.05}, "sampler against scorer"),
        ({"shift": 0.5}, "sampler against scorer"),
        ({"seed": 0}, "distinct seeds"),
    ],
)
def test_samplers_that_are_not_the_scorer_fail(wrong, name):
    class Wrong(CausalPolicy):
        def sample_scored(self, contexts, rng):
            rng = np.random.default_rng(wrong["seed"]) if "seed" in wrong else rng
            actions, stated = super().sample_scored(contexts, rng)
            return actions, stated * wrong.get("scale", 1.0) - wrong.get("shift", 0.0)

    safe, optimized = (
        kind(tiny_models.llama(scale=0.2, seed=k), tiny_models.tokenizer(), max_new_tokens=8)
        for k, kind in enumerate((CausalPolicy, Wrong))
    )
    result = preflight(safe, optimized, TEXTS, np.random.default_rng(0))
    assert "fail" in status(result, f"optimized: {name}") or "warn" in status(result, name)
    assert status(result, f"safe: {name}") == {"pass"}


def test_tokenizers_templates_ends_and_formats_that_differ_are_noticed():
    safe, _ = pair()
    special = tiny_models.tokenizer(special="<bos> $A")
    for words, options in (
        (tiny_models.tokenizer(lossy=True), {"max_new_tokens": 4}),
        (special, {"max_new_tokens": 4, "add_special_tokens": True}),
        (safe.tokenizer, {"max_new_tokens": 5}),
    ):
        other = CausalPolicy(tiny_models.llama(seed=1), words, **options)
        result = preflight(safe, other, TEXTS, np.random.default_rng(0))
        assert status(result, "same tokens and ends") == {"fail"}
        assert not status(result, "mean ratio"), "they have no actions in common"
    words = [tiny_models.tokenizer() for _ in range(2)]
    for each, start in zip(words, ("<bos>", "<end>"), strict=True):
        each.chat_template = start + "{{ messages[0]['content'] }}"
    chats = [
        CausalPolicy(tiny_models.llama(seed=k), each, max_new_tokens=4)
        for k, each in enumerate(words)
    ]
    result = preflight(*chats, TEXTS, np.random.default_rng(0))
    assert status(result, "chat template") == {"warn"}
    assert status(result, "chat format") == {"warn"}, "plain texts for a chat model"
    made = np.array(["<bos>" + text for text in TEXTS])
    assert status(preflight(*chats, made, np.random.default_rng(0)), "chat format") == {"pass"}


def test_a_server_passes_and_one_that_truncates_or_mixes_up_is_noticed():
    models = {
        name: tiny_models.llama(scale=0.2, seed=k) for k, name in enumerate(("base", "tuned"))
    }
    with Loopback(models) as server:
        policies = [remote_policy(server, name) for name in models]
        result = preflight(*policies, IDS, np.random.default_rng(0), draws=5)
        assert result.passed, str(result)

        class Truncating(Loopback):  # whatever it is told
            def kept(self, raw, setting):
                return super().kept(raw, {**setting, "top_k": 6})

        with Truncating(models) as wrong:
            cut = [policies[0], remote_policy(wrong, "tuned")]
            result = preflight(*cut, IDS, np.random.default_rng(0), draws=5)
            assert status(result, "optimized: sampling settings") == {"fail"}
            assert status(result, "safe: sampling settings") == {"pass"}

        class Mixing(Loopback):  # the weights of the other model while both are asked
            def choice(self, index, model, prompt, body, number=0):
                other = models["tuned" if body["model"] == "base" else "base"]
                return super().choice(
                    index, other if self.busy > 1 else model, prompt, body, number
                )

        with Mixing(models) as mixing:
            both = [remote_policy(mixing, name) for name in models]
            result = preflight(*both, IDS, np.random.default_rng(0), draws=4)
            assert status(result, "under traffic") & {"fail"}
        twice = [policies[0], remote_policy(server, "base")]
        result = preflight(*twice, IDS, np.random.default_rng(0), draws=3)
        assert status(result, "different policies") == {"warn"}


@pytest.mark.parametrize(("power", "fails"), [(1.0, False), (1.6, True)])
def test_bets_win_rarely_where_draws_are_as_scored(power, fails):
    rng, won = np.random.default_rng(0), 0
    for _ in range(100):
        table = rng.dirichlet(np.full(20, 0.5))
        drawn = rng.choice(20, size=120, p=table**power / (table**power).sum())
        order = np.argsort(-table)
        likely = order.tolist(), np.log(table[order])
        log_wealth = bet_on_tokens([LikelyTokens(int(each), *likely) for each in drawn])
        won += np.logaddexp.reduce(log_wealth) - np.log(len(log_wealth)) > np.log(100)
    assert (won > 20) if fails else (won <= 5)
    assert np.log(100) < LOG_WEALTH[1]
