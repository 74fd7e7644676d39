"""A preflight finds what is wrong, and finds nothing where nothing is."""

import functools

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch

from tests.llm import tiny
from tests.llm.loopback import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy, Preflight, PromptMixture, preflight
from tether.llm.preflight_checks.first_tokens import as_scored
from tether.llm.preflight_checks.policy_checks import (
    distinct_draws,
    endings,
    round_trip,
    sampler_against_scorer,
)

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
        best = logits.double().softmax(-1).sort(descending=True)
        few = self.few(best.values)
        return best.indices[:few].numpy(), (best.values[:few] / best.values[:few].sum()).numpy()

    def few(self, shares):
        return 5


class Nucleus(Cut):
    """Draws from the likeliest tokens that hold 0.9 of the probability: top_p."""

    def few(self, shares):
        return int((shares.cumsum(0) < 0.9).sum()) + 1


class Reseeded(CausalPolicy):
    """Begins with the same seed at every row."""

    def sample_scored(self, contexts, rng):
        asked, place = np.unique(contexts, return_inverse=True)
        actions, stated = super().sample_scored(asked, np.random.default_rng(0))
        return actions[place], stated[place]


class EachCall(CausalPolicy):
    """Begins with the same seed at every call."""

    def sample_scored(self, contexts, rng):
        return super().sample_scored(contexts, np.random.default_rng(0))


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

    drawn_at = 0.5

    def sample_scored(self, contexts, rng):
        other = CausalPolicy(
            self.model,
            self.tokenizer,
            temperature=self.drawn_at,
            max_new_tokens=self.max_new_tokens,
        )
        return other.sample_scored(contexts, rng)


class Hot(Warm):
    drawn_at = 1.6


class Raised(CausalPolicy):
    """Scores everything as likelier than it is."""

    def log_prob(self, contexts, actions):
        return super().log_prob(contexts, actions) + 1.0


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
    assert len(found.checks) == 19
    assert "384 draws, all scores" in str(found)


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


def test_divergences_are_those_of_the_policies():
    """Against sums over all completions, where the two divergences are far from each other."""
    safe, optimized = (
        CausalPolicy(tiny.llama(5, seed=seed, scale=0.6), None, max_new_tokens=2, eos_token_id=0)
        for seed in (3, 4)
    )
    every, prompt = np.array(tiny.every_completion(5, 2, [0])), np.array([[1, 3]])
    result = preflight(safe, optimized, prompt, np.random.default_rng(0), draws=1500)
    here = np.repeat(prompt, len(every), axis=0)
    one, two = (each.log_prob(here, every) for each in (safe, optimized))
    exact = (np.exp(two) * (two - one)).sum(), (np.exp(one) * (one - two)).sum()
    assert abs(exact[0] - exact[1]) > 0.5
    values = {check.name: check.value for check in result.checks}
    assert values["KL(optimized ‖ safe)"] == pytest.approx(exact[0], abs=0.2)
    assert values["KL(safe ‖ optimized)"] == pytest.approx(exact[1], abs=0.2)


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
        (Hot, 0.4, "safe: sampling settings"),
        (Nucleus, 0.02, "safe: sampling settings"),
        (Reseeded, 0.15, "safe: distinct seeds"),
        (EachCall, 0.15, "safe: distinct seeds"),
        (Endless, 0.15, "safe: sampler against scorer"),
    ],
)
def test_what_is_wrong_is_found(kind, scale, name):
    result = preflight(*pair(kind, scale), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, name) == "fail", str(result)
    assert not result.passed
    assert "→" in str(result)


def test_scores_that_are_too_high_show_in_what_the_other_policy_draws():
    one, two = pair()
    raised = [Raised(each.model, each.tokenizer, max_new_tokens=5) for each in (one, two)]
    for policies, name in (((one, raised[1]), "safe"), ((raised[0], two), "optimized")):
        result = preflight(*policies, PROMPTS, np.random.default_rng(0), draws=12)
        assert status(result, f"mean ratio under the {name} policy") == "fail", str(result)


def test_repeats_within_a_call_and_from_call_to_call():
    rng = np.random.default_rng(0)
    actions, scores = rng.integers(3, 50_000, (64, 40)), np.full(64, -120.0)
    assert distinct_draws(actions, scores, 16, 8).status == "pass"
    actions[1], actions[17] = actions[0], actions[16]
    assert distinct_draws(actions, scores, 16, 8).status == "fail"
    likely = np.full(64, np.log(0.5))  # two completions: all are soon repeats
    actions = rng.integers(2, size=(4, 16))
    assert distinct_draws(actions.reshape(-1, 1), likely, 16, 8).status == "pass"
    actions[:, 8:] = actions[:, :8]
    assert distinct_draws(actions.reshape(-1, 1), likely, 16, 8).status == "fail"


def test_an_end_that_adds_nothing_is_told():
    result = preflight(*pair(Endless), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "safe: end of sequence") == "warn"


def test_policies_that_end_elsewhere_are_a_row_of_the_table(tmp_path):
    safe, optimized = pair()
    other = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5, eos_token_id=[0, 5])
    for one, two in ((other, optimized), (safe, optimized.shortened(4))):
        result = preflight(one, two, PROMPTS, np.random.default_rng(0), draws=6)
        failed = [check.name for check in result.checks if check.status == "fail"]
        assert failed == ["same ends"], str(result)
        assert len(result.checks) == 13
        assert "the safe policy ends at" in str(result)
        assert result.costs == ()
        assert "draws an answer" not in str(result)
        result.save(tmp_path / "found.json")
        assert Preflight.load(tmp_path / "found.json") == result


@pytest.mark.parametrize("calls", [3, 4, 7])
def test_any_number_of_draws(calls):
    result = preflight(*pair(), PROMPTS, np.random.default_rng(0), draws=calls)
    assert result.passed, str(result)
    assert f"of {3 * calls} completions" in str(result)


def test_two_names_for_one_policy_are_told():
    safe, _ = pair()
    result = preflight(safe, safe, PROMPTS, np.random.default_rng(0), draws=6)
    assert status(result, "different policies") == "warn"
    assert "one model object in both" in str(result)
    assert result.passed


def test_a_sampler_that_is_cut_is_found_from_the_scores_of_its_draws_alone():
    """As on a server, where the scores of all other tokens are not to be had."""
    for kind, expected in ((CausalPolicy, "pass"), (Cut, "fail"), (Hot, "fail")):
        policy = pair(kind, 0.3)[0]
        policy.vocabulary = None
        check = as_scored(policy.shortened(1), PROMPTS, np.random.default_rng(0))
        assert check.status == expected, check
        assert "768 draws, the scores of what was drawn" in check.measured


def test_a_server_that_does_not_listen_is_found():
    class Stubborn(Loopback):
        def kept(self, raw, setting):
            return super().kept(raw, {**setting, "top_k": 5})

    with Stubborn({"base": tiny.llama(scale=0.3)}) as server:
        policy = OpenAIPolicy(server.url, "base", eos_token_id=0, max_new_tokens=1)
        check = as_scored(policy, np.array([[5, 7, 9]]), np.random.default_rng(0))
    assert check.status == "fail", check


def test_a_policy_that_cannot_do_what_the_other_does():
    safe, optimized = pair()
    with torch.no_grad():
        safe.model.lm_head.weight[7] = 0
        safe.model.lm_head.bias = torch.nn.Parameter(torch.zeros(tiny.SIZE))
        safe.model.lm_head.bias[7:30] = -torch.inf
    safe = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5)
    result = preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "absolute continuity") == "fail"


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
    safe, _ = pair()
    unnamed = CausalPolicy(safe.model, None, max_new_tokens=5)
    assert round_trip(unnamed, np.array([[3, 0, -1, -1, -1]])).status == "warn"


def test_text_that_becomes_other_tokens_is_told():
    words = tiny.tokenizer(lossy=True)
    policy = CausalPolicy(tiny.llama(), words, max_new_tokens=2)
    kept = words.convert_tokens_to_ids(["a", "b", "<bos>"])
    assert round_trip(policy, np.array([kept[:2], [kept[0], 0]])).status == "pass"
    check = round_trip(policy, np.array([kept[:2], [tiny.SIZE - 1, 0]]))
    assert (check.status, check.value) == ("warn", 0.5)


def test_completions_that_never_end_are_told():
    policy = pair()[0]
    asked, actions = PROMPTS[:2], np.array([[3, 4, 5, 6, 7], [8, 4, 5, 6, 7]])
    check = endings(policy, asked, actions, policy.log_prob(asked, actions))
    assert (check.status, check.value) == ("warn", 1.0)
    assert "2 of 2 completions were cut off" in check.measured
    assert "max_new_tokens" in check.advice


def test_bad_arguments():
    safe, optimized = pair()
    with pytest.raises(TypeError, match="prompts must be texts"):
        preflight(safe, optimized, 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="draws must be a whole number of at least 3, got 2"):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=2)
    with pytest.raises(ValueError, match=r"betas\[1\] must be at least 0, got -1"):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), betas=(1, -1))
    with pytest.raises(ValueError, match=r"betas\[0\] must be at least 0, got nan"):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), betas=(np.nan,))
    with pytest.raises(TypeError, match=r"betas\[0\] must be a number, got 'x'"):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), betas=("x",))
    mixture = PromptMixture(optimized, PROMPTS)
    with pytest.raises(TypeError, match=r"optimized must be .* PromptMixture has no sample_scored"):
        preflight(safe, mixture, PROMPTS, np.random.default_rng(0))
