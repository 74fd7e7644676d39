"""A preflight finds what is wrong, and finds nothing where nothing is."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tests.llm.preflight_checks.faulty_policies import (
    PROMPTS,
    NeverEnding,
    Nucleus,
    Penalized,
    SampledCooler,
    SampledHotter,
    ScoredTooHigh,
    SeededPerCall,
    SeededPerPrompt,
    TopFive,
    WithoutEndScore,
    make_pair,
)
from tests.progress_reporter import Counted
from tether._core import progress
from tether.llm import CausalPolicy, Preflight, PromptMixture, preflight
from tether.llm.preflight_checks import pair_checks


def status(found, name):
    return {check.name: check.status for check in found.checks}[name]


@pytest.fixture(scope="module")
def found():
    safe, optimized = make_pair()
    return preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=48)


def test_nothing_is_wrong_with_exact_policies(found):
    assert found.passed
    assert not [check for check in found.checks if check.status != "pass"], str(found)
    assert len(found.checks) == 21
    assert "384 draws, scores of all tokens known" in str(found)


def test_progress_is_reported_stage_by_stage():
    """And the draws and scores of a local model within them."""
    safe, optimized = make_pair()
    reporter = Counted()
    with progress.reported_to(reporter):
        preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=3)
    assert reporter.steps["preflight"] == [7, 7]
    for name in ("drawing completions", "scoring completions", "reading likely tokens"):
        done, total = reporter.steps[name]
        assert done == total > 0


def test_two_policies_on_one_server_have_no_fallback():
    models = {"base": tiny_models.llama(scale=0.3), "tuned": tiny_models.llama(scale=0.3, seed=1)}
    with Loopback(models) as one, Loopback(models) as two:
        safe = remote_policy(one, "base")
        same = pair_checks.check_separate_servers(safe, remote_policy(one, "tuned"))
        other = pair_checks.check_separate_servers(safe, remote_policy(two, "tuned"))
    assert (same.status, other.status) == ("warn", "pass")
    assert same.measured == f"both policies are at {one.url}, so they become unavailable together"
    assert "a fallback needs a second server" in same.advice


def test_costs_are_those_of_the_policies():
    """Against ψ of all completions of a small vocabulary written out."""
    safe, optimized = (
        CausalPolicy(
            tiny_models.llama(5, seed=seed, scale=0.15), None, max_new_tokens=2, eos_token_id=0
        )
        for seed in (3, 4)
    )
    every = np.array(tiny_models.every_completion(5, 2, [0]))
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
        CausalPolicy(
            tiny_models.llama(5, seed=seed, scale=0.6), None, max_new_tokens=2, eos_token_id=0
        )
        for seed in (3, 4)
    )
    every, prompt = np.array(tiny_models.every_completion(5, 2, [0])), np.array([[1, 3]])
    result = preflight(safe, optimized, prompt, np.random.default_rng(0), draws=1500)
    here = np.repeat(prompt, len(every), axis=0)
    one, two = (each.log_prob(here, every) for each in (safe, optimized))
    exact = (np.exp(two) * (two - one)).sum(), (np.exp(one) * (one - two)).sum()
    assert abs(exact[0] - exact[1]) > 0.5
    values = {check.name: check.value for check in result.checks}
    assert values["KL(optimized ‖ safe)"] == pytest.approx(exact[0], abs=0.2)
    assert values["KL(safe ‖ optimized)"] == pytest.approx(exact[1], abs=0.2)


def test_the_result_prints_saves_and_loads(found, tmp_path):
    text = str(found)
    for word in ("pass", "safe: sampling settings", "KL(optimized ‖ safe)", "draws per action"):
        assert word in text
    found.save(tmp_path / "found.json")
    assert Preflight.load(tmp_path / "found.json") == found


@pytest.mark.parametrize(
    ("kind", "scale", "name"),
    [
        (TopFive, 0.02, "safe: sampling settings"),
        (SampledCooler, 0.15, "safe: sampler against scorer"),
        (SampledCooler, 0.4, "safe: sampling settings"),
        (SampledHotter, 0.4, "safe: sampling settings"),
        (Nucleus, 0.02, "safe: sampling settings"),
        (Penalized, 0.15, "safe: sampling settings of all tokens"),
        (SeededPerPrompt, 0.15, "safe: distinct seeds"),
        (SeededPerCall, 0.15, "safe: distinct seeds"),
        (WithoutEndScore, 0.15, "safe: sampler against scorer"),
    ],
)
def test_faulty_policies_fail_a_check(kind, scale, name):
    result = preflight(*make_pair(kind, scale), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, name) == "fail", str(result)
    assert not result.passed
    assert "→" in str(result)


def test_a_policy_that_never_ends_fails_a_check():
    model = tiny_models.llama(8, scale=0.02)
    policies = (kind(model, None, max_new_tokens=5) for kind in (NeverEnding, CausalPolicy))
    prompts = np.array([[3, 4], [5, 6]])
    result = preflight(*policies, prompts, np.random.default_rng(0), draws=24)
    assert status(result, "safe: sampling settings of all tokens") == "fail", str(result)
    assert status(result, "optimized: sampling settings of all tokens") == "pass", str(result)


def test_scores_that_are_too_high_show_in_what_the_other_policy_draws():
    one, two = make_pair()
    raised = [ScoredTooHigh(each.model, each.tokenizer, max_new_tokens=5) for each in (one, two)]
    for policies, name in (((one, raised[1]), "safe"), ((raised[0], two), "optimized")):
        result = preflight(*policies, PROMPTS, np.random.default_rng(0), draws=12)
        assert status(result, f"mean ratio under the {name} policy") == "fail", str(result)


def test_an_end_token_without_score_is_a_warning():
    result = preflight(*make_pair(WithoutEndScore), PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "safe: end of sequence") == "warn"


def test_policies_with_other_end_tokens_fail_a_check(tmp_path):
    safe, optimized = make_pair()
    other = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5, eos_token_id=[0, 5])
    for one, two in ((other, optimized), (safe, optimized.shortened(4))):
        result = preflight(one, two, PROMPTS, np.random.default_rng(0), draws=6)
        failed = [check.name for check in result.checks if check.status == "fail"]
        assert failed == ["same ends"], str(result)
        assert len(result.checks) == 15
        assert "the safe policy has end tokens" in str(result)
        assert result.costs == ()
        assert "draws per action" not in str(result)
        result.save(tmp_path / "found.json", overwrite=True)
        assert Preflight.load(tmp_path / "found.json") == result


@pytest.mark.parametrize("calls", [3, 4, 7])
def test_any_number_of_draws(calls):
    result = preflight(*make_pair(), PROMPTS, np.random.default_rng(0), draws=calls)
    assert result.passed, str(result)
    assert f"of {3 * calls} completions" in str(result)


def test_policies_that_were_exchanged_are_found_by_what_the_safe_one_has_drawn():
    safe, optimized = make_pair(scale=0.4)
    rng = np.random.default_rng(0)
    prompts = np.repeat(PROMPTS, 60)
    logged = prompts, safe.sample(prompts, rng)
    name = "logged by the safe policy"
    right = preflight(safe, optimized, PROMPTS, rng, draws=6, logged=logged)
    wrong = preflight(optimized, safe, PROMPTS, rng, draws=6, logged=logged)
    assert status(right, name) == "pass", str(right)
    assert status(wrong, name) in ("warn", "fail"), str(wrong)
    assert "were the two policies exchanged" in " ".join(str(wrong).split())


def test_two_names_of_one_policy_are_a_warning():
    safe, _ = make_pair()
    result = preflight(safe, safe, PROMPTS, np.random.default_rng(0), draws=6)
    assert status(result, "different policies") == "warn"
    assert "one model object in both" in str(result)
    assert result.passed


def test_a_policy_that_cannot_do_what_the_other_does():
    safe, optimized = make_pair()
    with torch.no_grad():
        safe.model.lm_head.weight[7] = 0
        safe.model.lm_head.bias = torch.nn.Parameter(torch.zeros(tiny_models.SIZE))
        safe.model.lm_head.bias[7:30] = -torch.inf
    safe = CausalPolicy(safe.model, safe.tokenizer, max_new_tokens=5)
    result = preflight(safe, optimized, PROMPTS, np.random.default_rng(0), draws=24)
    assert status(result, "absolute continuity") == "fail"


def test_rough_weights_have_a_noise_floor():
    words = tiny_models.tokenizer()
    models = [
        tiny_models.llama(scale=0.5, seed=seed, layers=4).to(torch.bfloat16) for seed in (0, 0)
    ]
    result = preflight(
        *(CausalPolicy(each, words, max_new_tokens=20) for each in models),
        PROMPTS,
        np.random.default_rng(0),
        draws=8,
    )
    floor = {c.name: c.value for c in result.checks}["safe: noise floor of the dtype"]
    assert floor > 1e-4


def test_bad_arguments():
    safe, optimized = make_pair()
    with pytest.raises(TypeError, match="prompts must be texts"):
        preflight(safe, optimized, 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="draws must be an integer of at least 3, got 2"):
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
