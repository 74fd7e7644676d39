"""A preflight finds what is wrong, and finds nothing where nothing is."""

import functools

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch

from tests.llm import tiny
from tether.llm import CausalPolicy, Preflight, preflight
from tether.llm.measures import mean_ratio, round_trip, same_ends, sampler_against_scorer

PROMPTS = np.array(["cat", "What is it?", "abc"])


def status(found, name):
    return {check.name: check.status for check in found.checks}[name]


class Cut(CausalPolicy):
    """Draws from the best five tokens, and is scored as if from all."""

    def sample_scored(self, contexts, rng):
        best = functools.cache(self.best)
        actions = np.full((len(contexts), self.max_new_tokens), -1)
        for row, prompt in zip(actions, self.prompts(contexts), strict=True):
            seen = prompt
            for step in range(self.max_new_tokens):
                tokens, share = best(seen)
                row[step] = rng.choice(tokens, p=share)
                if row[step] in self.ends:
                    break
                seen = (*seen, int(row[step]))
        return actions, self.log_prob(contexts, actions)

    def best(self, seen):
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        best = logits.double().topk(5)
        return best.indices.numpy(), torch.softmax(best.values, -1).numpy()


class Reseeded(CausalPolicy):
    """Begins with the same seed at every row."""

    def sample_scored(self, contexts, rng):
        asked, place = np.unique(contexts, return_inverse=True)
        actions, stated = super().sample_scored(asked, np.random.default_rng(0))
        return actions[place], stated[place]


class Endless(CausalPolicy):
    """Leaves the end token out of the score."""

    def log_prob(self, contexts, actions):
        scores = super().log_prob(contexts, actions)
        actions = np.asarray(actions)
        for row, action in enumerate(actions):
            tokens = [int(each) for each in action if each != -1]
            if tokens[-1] in self.ends:
                prompt = self.prompts(contexts[row : row + 1])[0]
                scores[row] = tiny.one_by_one(self.model, prompt, tokens[:-1])
        return scores


class Warm(CausalPolicy):
    """Scores at another temperature than it samples."""

    def sample_scored(self, contexts, rng):
        cool = CausalPolicy(
            self.model, self.tokenizer, temperature=0.5, max_new_tokens=self.max_new_tokens
        )
        return cool.sample_scored(contexts, rng)


def pair(kind=CausalPolicy, scale=0.15):
    words = tiny.tokenizer()
    model = tiny.llama(scale=scale)
    other = tiny.llama(scale=scale, seed=1)
    with torch.no_grad():  # a little of another model, so that the two are near
        for one, two in zip(other.parameters(), model.parameters(), strict=True):
            one.copy_(two + 0.05 * one)
    return kind(model, words, max_new_tokens=5), kind(other, words, max_new_tokens=5)


@pytest.fixture(scope="module")
def found():
    safe, optimized = pair()
    return preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=48)


def test_nothing_is_wrong_with_exact_policies(found):
    assert found.passed
    assert not [check for check in found.checks if check.status != "pass"], str(found)
    assert len(found.checks) == 18


def test_costs_are_those_of_the_policies():
    """Against ψ of all completions of a small vocabulary written out."""
    safe, optimized = (
        CausalPolicy(tiny.llama(5, seed=seed, scale=0.15), None, max_new_tokens=2, eos_token_id=0)
        for seed in (3, 4)
    )
    every = np.array(tiny.every_completion(5, 2, [0]))
    prompts = np.array([[1, 3], [2, 2]])
    result = preflight(
        safe, optimized, prompts, np.random.default_rng(0), draws=1500, betas=(0.5, 2.0)
    )
    for cost in result.costs:
        if cost.family == "mix":
            assert (cost.acceptance, cost.draws) == (1.0, 1.0)
            continue
        kept = []
        for prompt in prompts:
            here = np.tile(prompt, (len(every), 1))
            scores = safe.log_prob(here, every), optimized.log_prob(here, every)
            psi = np.exp(np.minimum(scores[1], scores[0] + np.log(cost.beta))).sum()
            kept.append(psi / min(cost.beta, 1))
        assert cost.acceptance == pytest.approx(np.mean(kept), abs=0.03)
        assert cost.draws == pytest.approx(np.mean(1 / np.array(kept)), rel=0.05)


def test_it_prints_saves_and_loads(found, tmp_path):
    text = str(found)
    for word in ("pass", "safe: sampling settings", "KL(optimized ‖ safe)", "draws an answer"):
        assert word in text
    found.save(tmp_path / "found.json")
    assert Preflight.load(tmp_path / "found.json") == found


@pytest.mark.parametrize(
    ("kind", "scale", "name"),
    [
        (Cut, 0.02, "safe: sampling settings"),
        (Warm, 0.15, "safe: sampler against scorer"),
        (Warm, 0.4, "safe: sampling settings"),
        (Reseeded, 0.15, "safe: distinct seeds"),
        (Endless, 0.15, "safe: sampler against scorer"),
    ],
)
def test_what_is_wrong_is_found(kind, scale, name):
    result = preflight(*pair(kind, scale), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, name) == "fail", str(result)
    assert not result.passed
    assert "→" in str(result)


def test_an_end_that_adds_nothing_is_told():
    result = preflight(*pair(Endless), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "safe: end of sequence") == "warn"


def test_policies_that_end_elsewhere_are_refused():
    safe, optimized = pair()
    other = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5, eos_token_id=[0, 5])
    with pytest.raises(ValueError, match="no completion of this policy"):
        preflight(other, optimized, PROMPTS, np.random.default_rng(0), draws=24)


def test_a_policy_that_cannot_do_what_the_other_does():
    safe, optimized = pair()
    with torch.no_grad():
        safe.model.lm_head.weight[7] = 0
        safe.model.lm_head.bias = torch.nn.Parameter(torch.zeros(tiny.SIZE))
        safe.model.lm_head.bias[7:30] = -torch.inf
    safe = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5)
    result = preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "absolute continuity") == "fail"


def test_a_mean_ratio_above_one_is_impossible():
    rng = np.random.default_rng(0)
    shift = rng.normal(size=4000)
    assert mean_ratio("safe", shift - 0.5).status == "pass"
    assert mean_ratio("safe", shift).status == "fail"
    assert mean_ratio("safe", 5 * rng.normal(size=4000) - 12.5).status == "warn"


def test_rough_weights_have_a_noise_floor():
    words = tiny.tokenizer()
    models = [tiny.llama(scale=0.5, seed=seed, layers=4).to(torch.bfloat16) for seed in (0, 0)]
    result = preflight(
        *(CausalPolicy(each, words, max_new_tokens=20) for each in models),
        PROMPTS,
        np.random.default_rng(0),
        draws=8,
    )
    floor = {c.name: c.value for c in result.checks}["safe: noise floor of the dtype"]
    assert floor > 1e-4


def test_what_cannot_be_measured_is_a_warning():
    check = sampler_against_scorer(np.full(3, np.nan), np.zeros(3))
    assert (check.status, np.isnan(check.value)) == ("warn", True)
    safe, optimized = pair()
    unnamed = CausalPolicy(safe.model, None, max_new_tokens=5)
    assert round_trip(unnamed, np.array([[3, 0, -1, -1, -1]])).status == "warn"
    assert same_ends(safe, optimized).status == "pass"
    assert same_ends(safe, optimized.shortened(4)).status == "fail"


def test_bad_arguments():
    safe, optimized = pair()
    with pytest.raises(TypeError, match="prompts must be texts"):
        preflight(safe, optimized, 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="draws must be a whole number of at least 3, got 2"):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=2)
