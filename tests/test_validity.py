"""Deployed risk against what is promised, in worlds where it is known.

`make validity` is the long version, and has more worlds.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import prompt_world, shortlist_world
from benchmarks.markov_language import HARMS, MarkovLanguage, log_densities
from benchmarks.prompt_world import PromptWorld, clip_risk, mix_risk
from benchmarks.validity import PARTS
from benchmarks.validity_draws import plugged_in
from benchmarks.validity_families import PROCEDURES, applies, family_case
from benchmarks.validity_table import Case, Served, mean_and_error, run_table, simulate
from benchmarks.worlds import all_worlds, argmax, safe_risk_alpha
from scipy.stats import norm

import tether
from tests.scale import scaled

WORLDS = {f"{world.name}, {world.rounds}": world for world in all_worlds()}
RIGHT = [(family, how) for family, how in PROCEDURES if how in ("empirical", "analytic")]
REPEATS = scaled(12)


def run(name, family, how, repeats=REPEATS):
    case = replace(family_case(WORLDS[name], family, how), promised=scaled(4))
    (line,) = simulate(case, repeats)
    return line


@pytest.mark.parametrize("name", WORLDS)
def test_every_procedure_holds_alpha(name):
    for family, how in RIGHT:
        assert run(name, family, how).failures == []


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("unequal contexts, tables, 1", "global ψ (wrong)"),
        ("finite actions, 1", "global ψ (wrong)"),
        ("n = 20, 1", "looks safe (wrong)"),
    ],
)
def test_the_same_measure_sees_wrong_procedures_break(name, how):
    assert applies(WORLDS[name], how)
    assert run(name, "clip", how).failures


def test_control_is_not_bought_with_idleness():
    """With the safe policy below alpha, beta moves and some of the reward is kept."""
    for name in ("Gaussian shift, 1", "finite actions, 1", "unequal contexts, tables, 1"):
        line = run(name, "clip", "empirical")
        assert np.isfinite(line.log_beta).mean() > 0.8
        assert line.reward_kept.mean() > 0
        assert line.risks["loss"].mean() > 0.8 * WORLDS[name].alpha["loss"]


def test_published_figures_of_one_gaussian_world():
    """n = 200, α = 0.1: the literal algorithm deploys 0.0997 on average over 2,000 repeats."""
    risk, error = mean_and_error(run("Gaussian shift, 1", "clip", "empirical", 1000).risks["loss"])
    assert risk == pytest.approx(0.0997, abs=3.5 * error)


KINDS = {
    "draws": ("n = 200", 0.1),
    "shortlists": ("n = 50", 0.04),
    "tokens": ("spread harm, 16 tokens, 5 nats", 0.05),
    "promises": ("argmax, n = 200", 0.1),
    "confidence": ("Gaussian shift", 0.1),
    "controller": ("400 rows", 0.02),
    "languages": ("best of 8", 0.05),
}


@pytest.mark.parametrize("part", KINDS)
def test_some_cases_of_every_part_hold(part):
    only, share = KINDS[part]
    chosen = [case for case in PARTS[part]() if only in case.world and not case.wrong]
    assert chosen
    for case in chosen:
        for line in simulate(case, max(scaled(4), round(scaled(1) * share / 4 * case.repeats))):
            assert line.failures == [], str(line)


def test_best_of_n_of_copied_answers_breaks_alpha():
    """A server that draws N answers with one seed: picking seems to change nothing."""
    (case,) = (each for each in PARTS["languages"]() if each.wrong)
    (line,) = simulate(case, 8)
    assert line.failures
    assert np.isposinf(line.log_beta).all()


def test_the_beta_of_whole_answers_breaks_alpha_at_every_token():
    """The promise is of the policy that was calibrated: token by token it is another one."""
    (right,) = (
        c for c in PARTS["tokens"]() if "2 nats" in c.world and ", 100 rows, " in c.procedure
    )
    (wrong,) = (c for c in PARTS["tokens"]() if "beta of clip" in c.procedure)
    (line,) = simulate(wrong, 12)
    assert line.failures
    (line,) = simulate(right, 10)
    assert line.failures == []
    assert line.reward_kept.mean() > 0.1


@pytest.mark.slow
def test_rounds_at_every_token_serve_the_beta_that_they_calibrated():
    """What is served at twice that beta breaks alpha."""
    both = [
        case
        for case in PARTS["tokens"]()
        if "rare" in case.world and ("Controller" in case.procedure or "twice" in case.procedure)
    ]
    assert [case.wrong for case in both] == [False, True]
    for case in both:
        (line,) = simulate(replace(case, promised=4), 8)
        assert bool(line.failures) == case.wrong, str(line)
        assert line.reward_kept.mean() > 0.3


@pytest.mark.filterwarnings("ignore:nothing useful is promised:tether.AssumptionWarning")
def test_a_path_is_safe_where_draws_at_some_of_its_betas_miss_what_lies_between():
    traps = [case for case in PARTS["tokens"]() if "traps" in case.world]
    assert sorted(case.wrong for case in traps) == [False, False, True, True]
    for case in traps:
        (line,) = simulate(replace(case, promised=5), 30)
        assert bool(line.failures) == case.wrong, str(line)


def test_the_risk_and_the_reward_of_a_language_are_those_of_its_answers():
    rng = np.random.default_rng(0)
    for harm in HARMS:
        world = MarkovLanguage(16, 5.0, harm)
        assert world.risk(world.safe) <= 0.05 + 1e-9
        for model in (world.safe, world.optimized, world.token_path("clip")[45]):
            pairs = world.draw(model, 20_000, rng)
            risk, error = mean_and_error(world.losses(pairs))
            assert world.risk(model) == pytest.approx(risk, abs=4 * error)
            reward, error = mean_and_error(world.rewards(pairs))
            assert world.mean_reward(model) == pytest.approx(reward, abs=4 * error)
        drawn = world.draw(world.optimized, 20_000, rng)
        nats, error = mean_and_error(
            log_densities(drawn, np.array([world.optimized, world.safe])) @ [1, -1]
        )
        assert nats == pytest.approx(5.0, abs=4 * error)


def test_few_draws_break_an_estimated_normalizer_and_not_the_package():
    world = PromptWorld(20_000, 2)
    streams = [np.random.default_rng(seed) for seed in range(scaled(6))]
    risks = [plugged_in(world, rng)[0].risks["loss"] for rng in streams]
    risk, error = mean_and_error(np.array(risks))
    assert risk > prompt_world.ALPHA + 3 * error
    (case,) = (
        each
        for each in PARTS["draws"]()
        if each.world.endswith("n = 20,000, 2 shared") and each.procedure == "clip, empirical"
    )
    (line,) = simulate(case, scaled(6))
    assert line.failures == []
    assert line.risks["loss"].mean() > 0.9 * prompt_world.ALPHA


def integral(density, start=-12.0):
    grid = np.linspace(start, 16, 56_001)
    return np.trapezoid(density(grid), grid)


@pytest.mark.parametrize("log_beta", [-np.inf, -2.0, -0.3, 0.0, 0.7, 3.0, np.inf])
@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_the_risk_in_a_prompt_is_an_integral(log_beta, shift):
    safe, optimized = norm.pdf, lambda a: norm.pdf(a - shift)
    share = 1 / (1 + np.exp(-log_beta))
    mixed = integral(lambda a: (1 - share) * safe(a) + share * optimized(a), prompt_world.HARM)
    assert mix_risk(log_beta, shift) == pytest.approx(mixed, abs=1e-6)

    def kernel(a):
        return np.minimum(optimized(a), np.exp(log_beta) * safe(a))

    psi = np.nan if np.isinf(log_beta) else integral(kernel)
    for budget in (1, 4, np.inf):

        def density(a, budget=budget):
            if np.isinf(log_beta):
                return safe(a) if log_beta < 0 else optimized(a)
            rejected = (1 - psi / min(np.exp(log_beta), 1)) ** budget
            return (1 - rejected) * kernel(a) / psi + rejected * safe(a)

        harm = integral(density, prompt_world.HARM)
        assert clip_risk(log_beta, shift, budget) == pytest.approx(harm, abs=1e-6)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(2)"])
@pytest.mark.parametrize("log_beta", [-np.inf, -1.0, 0.5, np.inf])
def test_the_risk_of_a_shortlist_is_a_sum_over_all_candidates(family, log_beta):
    values, chances = shortlist_world.VALUES, shortlist_world.CHANCES
    score = lambda contexts, candidates: 1.7 * candidates  # noqa: E731
    harm, size, total = np.linspace(0, 1, len(values)), 3, 0.0
    shortlist = tether.Shortlist(shortlist_world.draw, score, size=size)
    pick = shortlist.tethered(float(np.exp(log_beta)), family=family).pick
    everything = np.array(list(itertools.product(range(len(values)), repeat=size)))
    rows = tether.policies.ShortlistRows(np.zeros(len(everything), int), values[everything])
    density = np.exp(pick.log_prob_all(rows))
    total = (chances[everything].prod(axis=1)[:, None] * density * harm[everything]).sum()
    found = shortlist_world.risk_of(1.7 * values, harm, size, family, log_beta)
    assert found == pytest.approx(total, abs=1e-12)


def test_worlds_are_what_their_names_say():
    for contexts in (True, False):
        world = safe_risk_alpha(30, contexts=contexts)
        assert world.deployed(world.log_safe)[0]["loss"] == pytest.approx(0.12, abs=1e-12)
        assert ((world.losses["loss"] >= 0) & (world.losses["loss"] <= 1)).all()
    world = argmax(50, tables=True)
    assert np.isneginf(world.log_optimized).sum() == 4 * 40
    assert len({(case.world, case.procedure) for part in PARTS.values() for case in part()}) == sum(
        len(part()) for part in PARTS.values()
    )


def of_risk(risk, rng):
    return [Served({"loss": risk + 0.01 * rng.normal()}, 0.0)]


def above(rng):
    return of_risk(0.12, rng)


def below(rng):
    return of_risk(0.08, rng)


def case(name, run, **more):
    return Case("a world", name, {"loss": 0.1}, run, 50, **more)


def test_the_table_tells_right_from_wrong(capsys):
    assert run_table([case("right", below)], workers=1)
    assert not run_table([case("right", above)], workers=1)
    assert "FAILED: mean loss 0.12" in capsys.readouterr().out
    assert run_table([case("wrong", above, wrong=True)], workers=1)
    assert not run_table([case("wrong", below, wrong=True)], workers=1)
    assert "'wrong' was not seen to fail" in capsys.readouterr().out


def test_a_confidence_is_judged_by_the_share_of_runs_above_alpha():
    (line,) = simulate(case("sometimes", below, confidence=0.9))
    assert line.share_above < 0.1
    assert line.failures == []
    (line,) = simulate(case("often", above, confidence=0.9, at_alpha=True))
    assert any("of the runs above alpha" in failure for failure in line.failures)
