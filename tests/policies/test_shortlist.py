"""Shortlists: the rows they make, what picks, and that the action served keeps its promise."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.scale import scaled
from tether import Categorical, Gaussian, Shortlist, calibrate, make_log, make_proposals, serve
from tether.policies import ShortlistRows

FAMILIES = ("clip", "mix", "budgeted_clip(3)")


def near(contexts, rng):
    """A sampler without log-probabilities."""
    return rng.normal(contexts)


def above(contexts, candidates):
    """A score that prefers candidates far above their context."""
    return candidates - contexts[:, None]


def example(rows=400, size=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=rows)
    actions = near(contexts, rng)
    shortlist = Shortlist(near, above, size=size, **options)
    return shortlist, shortlist.make_log(contexts, actions, actions > contexts + 1.5, rng), rng


def test_candidates_are_draws_of_the_safe_policy_in_their_own_context():
    contexts = np.array([0.0, 100.0, -50.0])
    rows = Shortlist(near, size=6).draw(contexts, np.random.default_rng(0))
    assert rows.candidates.shape == (3, 6)
    assert np.abs(rows.candidates - contexts[:, None]).max() < 6


@pytest.mark.parametrize(
    ("sample", "shape"),
    [
        (lambda n, rng: rng.integers(5, size=n), ()),
        (lambda n, rng: rng.normal(size=(n, 3)), (3,)),
        (lambda n, rng: np.array(["yes", "no", "perhaps"])[rng.integers(3, size=n)], ()),
    ],
    ids=["numbers", "vectors", "text"],
)
def test_a_logged_action_keeps_its_value_at_a_random_position(sample, shape):
    rng = np.random.default_rng(1)
    actions = sample(3_000, rng)
    rows, index = Shortlist(sample, size=4).join(None, actions, rng)
    assert rows.candidates.shape == (3_000, 4, *shape)
    np.testing.assert_array_equal(rows.picked(index), actions)
    counts = np.bincount(index, minlength=4)
    assert np.abs(counts - 750).max() < 5 * np.sqrt(750)


def test_joined_rows_have_the_distribution_of_drawn_ones():
    """Candidates and position: every combination is equally likely either way."""

    def coin(n, rng):
        return rng.integers(2, size=n)

    rng, rows = np.random.default_rng(2), 80_000
    shortlist = Shortlist(coin, size=2)
    joined, index = shortlist.join(None, coin(rows, rng), rng)
    codes = joined.candidates[:, 0] * 4 + joined.candidates[:, 1] * 2 + index
    counts = np.bincount(codes, minlength=8)
    assert ((counts - rows / 8) ** 2 / (rows / 8)).sum() < 30  # chi-square, 7 degrees of freedom


def test_fresh_candidates_must_be_of_the_kind_of_the_actions():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"actions have shape \(\) and dtype <U1 per row, but"):
        Shortlist(near, size=2).join([0.0, 1.0], ["a", "b"], rng)
    with pytest.raises(ValueError, match=r"actions have shape \(2,\) and dtype"):
        Shortlist(near, size=2).join([0.0, 1.0], np.zeros((2, 2)), rng)


@pytest.mark.parametrize("family", FAMILIES)
def test_six_lines_from_a_sampler_and_a_score_to_a_served_policy(family):
    shortlist, log, rng = example()
    found = calibrate(log, alpha=0.15, family=family)
    policy = shortlist.tethered(found)
    contexts = np.linspace(-3, 3, 500)
    actions, rows, index = policy.sample_with_rows(contexts, rng)
    np.testing.assert_array_equal(rows.picked(index), actions)
    assert found.exists
    assert policy.beta == found.beta
    assert policy.family.name == family
    table = policy.pick.log_prob_all(rows)
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1)
    assert (np.exp(table) * 4 <= 4 + 1e-9).all()
    assert (actions - contexts).mean() > 0.1
    served = serve(policy, contexts, rng)
    assert len(served.actions) == 500
    assert not served.from_safe.any()
    np.testing.assert_array_equal(policy.sample([0.0], np.random.default_rng(3)),
                                  policy.sample([0.0], np.random.default_rng(3)))  # fmt: skip


def test_the_log_is_that_of_a_uniform_policy_over_positions():
    shortlist, log, _ = example(size=8)
    np.testing.assert_allclose(log.log_safe, -np.log(8))
    np.testing.assert_allclose(log.log_safe_all, -np.log(8))
    assert log.log_optimized_all.shape == (400, 8)
    assert log.contextual
    assert (log.log_optimized - log.log_safe).max() <= np.log(8)
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=400)
    actions = near(contexts, rng)
    losses = actions > contexts + 1.5
    same = make_log(Shortlist(near, size=8), above, contexts, actions, losses, rng=rng)
    np.testing.assert_array_equal(same.log_optimized_all, log.log_optimized_all)
    assert make_proposals(shortlist, above, contexts, 4, rng) is None


def test_beta_zero_is_the_safe_policy_and_infinite_beta_the_picker():
    shortlist, rng = Shortlist(near, above, size=4), np.random.default_rng(0)
    rows = shortlist.draw(rng.normal(size=50), rng)
    none, all_ = (shortlist.tethered(beta).pick.log_prob_all(rows) for beta in (0.0, np.inf))
    np.testing.assert_allclose(none, -np.log(4))
    np.testing.assert_allclose(all_, shortlist.picker.log_prob_all(rows))


@pytest.mark.parametrize("safe_scores", [True, False])
def test_an_optimized_policy_picks_by_its_ratio_or_by_its_own_score_alone(safe_scores):
    """With many candidates: the optimized policy, or the product of both densities."""
    safe = Gaussian(0.0) if safe_scores else Gaussian(0.0).sample
    policy = Shortlist(safe, Gaussian(1.0, 0.8), size=256).tethered(np.inf)
    actions = policy.sample(4_000, np.random.default_rng(0))
    product_variance = 1 / (1 + 1 / 0.64)
    mean, scale = (1.0, 0.8) if safe_scores else (product_variance / 0.64, product_variance**0.5)
    assert abs(actions.mean() - mean) < 0.05
    assert abs(actions.std() - scale) < 0.05


def test_a_score_never_asks_the_safe_policy_for_log_probabilities():
    class Draws:
        def sample(self, contexts, rng):
            return near(contexts, rng)

        def log_prob(self, contexts, actions):
            raise AssertionError("not needed")

    rng = np.random.default_rng(0)
    contexts = rng.normal(size=200)
    actions = near(contexts, rng)
    shortlist = Shortlist(Draws(), above, size=4)
    log = shortlist.make_log(contexts, actions, actions > contexts + 1.5, rng)
    assert len(shortlist.tethered(calibrate(log, alpha=0.2)).sample(contexts, rng)) == 200


def test_finite_actions_and_text_are_picked_too():
    answers = np.array(["yes", "no", "perhaps"])
    safe = Categorical.from_probabilities([0.5, 0.4, 0.1], actions=answers)
    rng = np.random.default_rng(0)
    actions = safe.sample(2_000, rng)
    shortlist = Shortlist(safe, lambda n, texts: np.char.str_len(texts).astype(float), size=3)
    log = shortlist.make_log(None, actions, actions == "perhaps", rng)
    found = calibrate(log, alpha=0.2)
    taken = shortlist.tethered(found).sample(20_000, rng)
    assert 0.15 < (taken == "perhaps").mean() < 0.21
    assert (Shortlist(safe, safe, size=3).tethered(np.inf).sample(10, rng) != "").all()


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="safe must be an object with sample"):
        Shortlist(3.0, above)
    with pytest.raises(
        TypeError, match=r"safe must be a sampler, not a class: write Gaussian\(…\)"
    ):
        Shortlist(Gaussian, above)
    with pytest.raises(TypeError, match="optimized must be a function of"):
        Shortlist(near, 3.0)
    with pytest.raises(ValueError, match="size must be an integer of at least 2, got 1"):
        Shortlist(near, above, size=1)
    with pytest.raises(ValueError, match="temperature must be at least 0 and finite, got -1"):
        Shortlist(near, above, temperature=-1)
    with pytest.raises(ValueError, match="has no optimized policy"):
        Shortlist(near).tethered(1.0)
    with pytest.raises(ValueError, match="picks from 4 candidates, but this shortlist has size 8"):
        Shortlist(near, size=8).picker_of(Shortlist(near, above, size=4))
    with pytest.raises(TypeError, match="safe is a shortlist"):
        tether.Tethered(Shortlist(near, above), Gaussian(0.0), 1.0)
    with pytest.raises(TypeError, match="rng must be a numpy"):
        make_log(Shortlist(near), above, None, [1.0], [0.0])
    with pytest.raises(ValueError, match="propensities are not for shortlists"):
        make_log(Shortlist(near), above, None, [1.0], [0.0], safe_share=0.5)
    with pytest.raises(TypeError, match="a picker needs candidates"):
        Shortlist(near, above, size=4).picker.log_prob_all(np.zeros(3))
    with pytest.raises(ValueError, match="the rows have 3 candidates, expected 4"):
        Shortlist(near, above, size=4).picker.log_prob_all(ShortlistRows(1, np.zeros((1, 3))))


def test_a_beta_of_another_kind_of_log_is_refused(tmp_path):
    shortlist, log, rng = example(size=4)
    found = calibrate(log, alpha=0.15)
    with pytest.raises(
        ValueError, match="calibrated on 4 candidates, but the shortlist has size 8"
    ):
        Shortlist(near, above, size=8).tethered(found)
    actions = Gaussian(0.0).sample(200, rng)
    marginal = make_log(Gaussian(0.0), Gaussian(0.5), None, actions, actions > 1.5)
    with pytest.raises(ValueError, match="was not calibrated on shortlists"):
        shortlist.tethered(calibrate(marginal, alpha=0.15))


# --- an oracle: three actions, two candidates, everything enumerated

SAFE = np.array([0.5, 0.3, 0.2])
HARM = np.array([0.02, 0.1, 0.6])
VALUE = np.array([0.0, 0.7, 1.6])


def draw_three(contexts, rng):
    return rng.choice(3, size=contexts, p=SAFE)


def value(contexts, candidates):
    return VALUE[candidates]


def density_of_pick(pair, beta, family):
    """The density of picking each of two candidates, from the definitions in plain numbers."""
    picked = np.exp(VALUE[list(pair)])
    picked, uniform = picked / picked.sum(), np.full(2, 0.5)
    if family == "mix":
        return (uniform + beta * picked) / (1 + beta)
    clipped = np.minimum(picked, beta * uniform)
    psi = clipped.sum()
    if family == "clip":
        return clipped / psi
    accepted = 1 - (1 - psi / min(beta, 1)) ** 3
    return accepted * clipped / psi + (1 - accepted) * uniform


def exact_risk(beta, family):
    """The risk of the action served, over all pairs of candidates and both picks."""
    risk = 0.0
    for pair in itertools.product(range(3), repeat=2):
        density = density_of_pick(pair, beta, family)
        risk += SAFE[pair[0]] * SAFE[pair[1]] * (density * HARM[list(pair)]).sum()
    return risk


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 5.0), st.sampled_from(FAMILIES))
def test_every_pick_has_the_density_of_its_definition(beta, family):
    policy = Shortlist(draw_three, value, size=2).tethered(beta, family=family)
    pairs = np.array(list(itertools.product(range(3), repeat=2)))
    table = np.exp(policy.pick.log_prob_all(ShortlistRows(9, pairs)))
    expected = [density_of_pick(tuple(pair), beta, family) for pair in pairs]
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_the_enumerated_risk(family):
    policy = Shortlist(draw_three, value, size=2).tethered(0.8, family=family)
    actions = policy.sample(200_000, np.random.default_rng(0))
    assert abs(HARM[actions].mean() - exact_risk(0.8, family)) < 0.002


@pytest.mark.parametrize("family", FAMILIES)
def test_a_large_log_finds_the_beta_at_which_the_enumerated_risk_is_alpha(family):
    rng, rows = np.random.default_rng(1), 60_000
    shortlist, actions = Shortlist(draw_three, value, size=2), draw_three(rows, rng)
    log = shortlist.make_log(None, actions, rng.random(rows) < HARM[actions], rng)
    found = calibrate(log, alpha=0.2, family=family)
    assert abs(exact_risk(found.beta, family) - 0.2) < 0.004


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [40, 300])
def test_the_enumerated_risk_is_at_most_alpha_on_average(rows, family):
    rng = np.random.default_rng(rows)
    shortlist, alpha = Shortlist(draw_three, value, size=2), 0.21
    risks, excess = [], []
    for _ in range(scaled(80)):
        actions = draw_three(rows + 1, rng)
        losses = rng.random(rows + 1) < HARM[actions]
        log = shortlist.make_log(None, actions[:rows], losses[:rows], rng)
        found = calibrate(log, alpha=alpha, family=family)
        risks.append(exact_risk(np.clip(found.beta, 1e-9, 1e9), family))
        excess.append(max(losses.mean() - alpha, 0))  # where no beta exists
    assert np.mean(risks) <= alpha + np.mean(excess) + 3 * np.std(risks) / np.sqrt(len(risks))
    assert np.mean(risks) > 0.165  # the safe policy's risk is 0.16


def test_an_infinite_beta_says_what_it_picks():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=400)
    actions = rng.normal(contexts)

    def draws(contexts, rng):
        return rng.normal(contexts)

    def score(contexts, candidates):
        return candidates - contexts[:, None]

    soft = tether.Shortlist(draws, score, size=4)
    harmless = np.zeros(400)
    found = tether.calibrate(soft.make_log(contexts, actions, harmless, rng), alpha=0.2)
    assert np.isinf(found.beta)
    table = soft.make_log(contexts, actions, harmless, rng).log_optimized_all
    (told,) = [each for each in found.warnings if "beta = inf is the soft pick" in each]
    assert "not the best of 4" in told
    assert f"probability {np.exp(table.max(axis=1)).mean():.1g}" in told
    assert "(0.25 by chance)" in told
    held = tether.calibrate(soft.make_log(contexts, actions, actions > 1, rng), alpha=0.2)
    assert not any("soft pick" in each for each in held.warnings)
    sharp = tether.Shortlist(draws, score, size=4, temperature=0)
    found = tether.calibrate(sharp.make_log(contexts, actions, harmless, rng), alpha=0.2)
    assert not any("soft pick" in each for each in found.warnings)
