"""When the tethered policy fails, the safe one answers, and it is written down."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny_models as tiny
from tests.llm.loopback_server import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy, serve
from tether.sampling.errors import CapError

PROMPTS = np.array([[5, 7, 9], [4, -1, -1], [6, 6, 6], [5, 7, -1]])


def local(**options):
    return CausalPolicy(tiny.llama(scale=0.3), None, max_new_tokens=4, eos_token_id=0, **options)


def served(server, **options):
    options = {"retries": 0, "max_new_tokens": 4, "eos_token_id": 0, **options}
    return OpenAIPolicy(server.url, "tuned", **options)


def rng():
    return np.random.default_rng(0)


@pytest.fixture
def server():
    with Loopback({"tuned": tiny.llama(scale=0.3, seed=1)}, context=12) as running:
        yield running


def test_nothing_falls_back_while_all_is_well(server):
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, PROMPTS, rng())
    assert not found.from_safe.any()
    assert found.failures == ()
    assert np.array_equal(found.actions, policy.sample(PROMPTS, rng()))
    assert set(found.source) == {"tethered"}


def test_a_server_that_is_gone_leaves_the_safe_answers():
    with Loopback({"tuned": tiny.llama()}) as running:
        policy = tether.Tethered(local(), served(running), 2.0)
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()
    assert set(found.source) == {"safe"}
    assert len(found.failures) == 1
    assert "ConnectError" in str(found)
    assert np.isfinite(local().log_prob(PROMPTS, found.actions)).all()


def test_a_server_that_dies_in_between(server):
    """Half-way through accept-reject: all of this call is the safe policy's, from scratch."""
    policy = tether.Tethered(local(), served(server, concurrency=1), 2.0)
    server.faults = [None, None, None, *["half"] * 50]
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()


def test_one_prompt_that_does_not_fit_takes_no_other_with_it(server):
    long = np.full((5, 10), -1)
    long[:4, :3] = PROMPTS
    long[4] = 6  # ten tokens and four more do not fit the server's context of twelve
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, long, rng())
    assert found.from_safe.tolist() == [False, False, False, False, True]
    assert "maximum context length is 12" in found.failures[0]
    assert (found.actions[:, 0] >= 0).all()


class Beside:
    """A real policy that can be made to fail: when it draws, when it scores, or at some answers."""

    def __init__(self, policy, *, error=None, scores=None):
        self.policy, self.error, self.scores, self.asked = policy, error, scores, 0

    def sample(self, contexts, rng):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.policy.sample(contexts, rng)

    def log_prob(self, contexts, actions):
        self.asked += 1
        found = self.policy.log_prob(contexts, actions)
        return found if self.scores is None else self.scores(contexts, actions, found)


def small(seed):
    """Completions of two tokens out of four."""
    model = tiny.llama(4, seed=seed, scale=0.5)
    return CausalPolicy(model, None, max_new_tokens=2, eos_token_id=0)


def first_tokens(policy):
    return np.exp(policy.shortened(1).log_prob(np.tile([1, 2], (4, 1)), np.arange(4)[:, None]))


def chi_square(actions, probabilities):
    """About three, with a standard deviation of 2.4, if the first tokens are drawn from these."""
    expected = len(actions) * probabilities
    return ((np.bincount(actions[:, 0], minlength=4) - expected) ** 2 / expected).sum()


def test_mix_is_recorded_as_what_it_was_drawn_from_also_in_an_outage():
    """Asked one by one, a coin that falls on the safe policy must not make a row of the mix."""
    safe, tuned = small(3), Beside(small(4))
    mix = tether.Tethered(safe, tuned, 1.0, family="mix")
    prompt, stream = np.array([[1, 2]]), rng()
    actions, source = [], []
    for k in range(500):
        tuned.error = ConnectionError("gone") if k < 250 else None
        found = serve(mix, prompt, stream)
        actions.append(found.actions[0])
        source.append(found.source[0])
    actions, source = np.array(actions), np.array(source)
    assert source.tolist() == ["safe"] * 250 + ["tethered"] * 250
    mixed = (first_tokens(safe) + first_tokens(tuned.policy)) / 2
    assert chi_square(actions[source == "safe"], first_tokens(safe)) < 15
    assert chi_square(actions[source == "tethered"], mixed) < 15
    assert chi_square(actions[source == "safe"], mixed) > 30  # so the other way round would show


def test_mix_of_mixes_asks_every_policy_whatever_the_coins_say():
    safe, old, tuned = small(3), Beside(small(4)), Beside(small(5))
    mix = tether.Tethered(tether.Tethered(safe, old, 1.0, family="mix"), tuned, 1.0, family="mix")
    prompts, stream = np.tile([1, 2], (600, 1)), rng()
    mixed = sum(s * first_tokens(p) for s, p in ((0.25, safe), (0.25, small(4)), (0.5, small(5))))
    assert chi_square(serve(mix, prompts, stream).actions, mixed) < 15
    old.error = ConnectionError("gone")
    assert all(serve(mix, prompts[:1], stream, safe=safe).from_safe[0] for _ in range(20))


def test_mix_never_takes_a_prompt_that_only_the_safe_policy_can(server):
    mix = tether.Tethered(local(), served(server), 1.0, family="mix")
    long = np.full((1, 10), 6)
    assert all(serve(mix, long, np.random.default_rng(k)).from_safe[0] for k in range(12))


def test_answers_that_make_it_fail_are_not_drawn_anew_until_they_pass():
    def no_number(contexts, actions, found):
        return np.where(actions[:, 0] % 2 == 0, np.nan, found)

    safe = small(3)
    policy = tether.Tethered(safe, Beside(safe, scores=no_number), 1.0)
    every = [
        serve(policy, np.tile([1, 2], (24, 1)), np.random.default_rng(seed)) for seed in range(4)
    ]
    assert all(found.from_safe.all() and "nan" in found.failures[0] for found in every)
    actions = np.concatenate([found.actions for found in every])
    even = first_tokens(safe)[::2].sum()
    assert abs((actions[:, 0] % 2 == 0).mean() - even) < 4 * 0.5 / np.sqrt(len(actions))


def test_what_fails_after_the_refused_are_out_is_not_sifted_again():
    """All three fail, two of them (and one of these) alone, the other two together, then one."""
    outcomes = iter([False, True, False, False, True, False, False, True, True])

    def scores(contexts, actions, found):
        if next(outcomes):
            return found
        raise ValueError("not this one")

    policy = tether.Tethered(local(), Beside(local(), scores=scores), 1.0)
    assert serve(policy, PROMPTS[:3], rng()).from_safe.all()
    assert len(list(outcomes)) == 3


def test_a_refusal_that_no_context_explains_is_not_asked_again():
    once = [ValueError("a hiccup")]

    def hiccup(contexts, actions, found):
        if once:
            raise once.pop()
        return found

    policy = tether.Tethered(local(), Beside(local(), scores=hiccup), 1.0)
    assert serve(policy, PROMPTS, rng()).from_safe.all()


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), TimeoutError("slow"), MemoryError("full"), RuntimeError("x")]
)
def test_a_policy_that_is_gone_is_asked_once(error):
    gone = Beside(local(), error=error)
    found = serve(tether.Tethered(local(), gone, 2.0), np.tile([4, 5], (64, 1)), rng())
    assert (found.from_safe.all(), gone.asked, len(found.failures)) == (True, 1, 1)


def test_a_policy_that_is_gone_while_the_refused_are_looked_for():
    def scores(contexts, actions, found):
        if len(actions) < 64:
            raise TimeoutError("gone meanwhile")
        raise ValueError("one of them")

    policy = tether.Tethered(local(), Beside(local(), scores=scores), 0.5)
    found = serve(policy, np.tile([4, 5], (64, 1)), rng())
    assert found.from_safe.all()
    assert "gone meanwhile" in found.failures[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interrupt_is_an_interrupt(error):
    with pytest.raises(type(error)):
        serve(tether.Tethered(local(), Beside(local(), error=error), 2.0), PROMPTS, rng())


@pytest.mark.parametrize("sampler", ["auto", "metropolis"])
def test_one_context_at_its_cap_takes_no_other_with_it(sampler):
    def far(contexts, actions, found):
        return found - 40 * (np.asarray(contexts)[:, 0] == 9)

    prompts = np.tile([4, 5], (16, 1))
    prompts[7, 0] = 9
    optimized = Beside(local(), scores=far)
    policy = tether.Tethered(local(), optimized, 0.5, cap=300, sampler=sampler)
    found = serve(policy, prompts, rng())
    assert np.flatnonzero(found.from_safe).tolist() == [7]
    assert "gave up" in found.failures[0]
    # Where a policy that it is made of gives up, the numbers are not those of the prompts.
    above = tether.Tethered(policy, local(), 0.5)
    assert serve(above, prompts, rng(), safe=local()).from_safe.all()


def test_a_safe_policy_that_fails_is_an_error():
    with Loopback({"tuned": tiny.llama()}) as running:
        gone = served(running)
    with pytest.raises(RuntimeError, match="the safe policy's sample failed"):
        serve(tether.Tethered(gone, local(), 2.0), PROMPTS, rng())
    with pytest.raises(TypeError, match="safe must be the safe policy"):
        serve(local(), PROMPTS, rng())
    assert not serve(local(), PROMPTS, rng(), safe=local()).from_safe.any()


class GivesUp:
    """A sampler that reaches its cap in one context."""

    def sample(self, contexts, rng):
        missing = np.flatnonzero(np.asarray(contexts) == 7)
        if len(missing):
            raise CapError("gave up", missing)
        return rng.normal(size=len(contexts))

    def log_prob(self, contexts, actions):
        return -0.5 * np.asarray(actions) ** 2


def test_a_leg_of_mix_that_gives_up_in_a_context_does_so_whatever_the_coin_says():
    contexts = np.array([1, 2, 7, 5])
    policy = tether.Tethered(GivesUp(), tether.Gaussian(1.0), 1.0, family="mix")
    generator = rng()
    for _ in range(20):
        found = serve(policy, contexts, generator, safe=tether.Gaussian(0.0))
        assert found.from_safe.tolist() == [False, False, True, False]
