"""Where the tethered policy fails, the safe policy acts, and it is recorded."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny_models as tiny
from tests.llm.loopback_server import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy
from tether.policies import serve
from tether.sampling.errors import DrawLimitError

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


def test_nothing_falls_back_without_a_failure(server):
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, PROMPTS, rng())
    assert not found.from_safe.any()
    assert found.failures == ()
    assert np.array_equal(found.actions, policy.sample(PROMPTS, rng()))
    assert set(found.source) == {"tethered"}


def test_the_safe_policy_answers_for_a_server_that_is_unavailable():
    with Loopback({"tuned": tiny.llama()}) as running:
        policy = tether.Tethered(local(), served(running), 2.0)
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()
    assert set(found.source) == {"safe"}
    assert len(found.failures) == 1
    assert "ConnectError" in str(found)
    assert np.isfinite(local().log_prob(PROMPTS, found.actions)).all()


def test_a_server_that_fails_during_accept_reject(server):
    """The whole call is then the safe policy's."""
    policy = tether.Tethered(local(), served(server, concurrency=1), 2.0)
    server.faults = [None, None, None, *["half"] * 50]
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()


def test_a_prompt_that_is_too_long_does_not_affect_the_others(server):
    long = np.full((5, 10), -1)
    long[:4, :3] = PROMPTS
    long[4] = 6  # ten tokens and four more do not fit the server's context of twelve
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, long, rng())
    assert found.from_safe.tolist() == [False, False, False, False, True]
    assert "maximum context length is 12" in found.failures[0]
    assert (found.actions[:, 0] >= 0).all()


class FailingPolicy:
    """A policy that can be made to fail: when it draws, when it scores, or at some actions."""

    def __init__(self, policy, *, error=None, scores=None):
        self.policy, self.error, self.scores, self.calls = policy, error, scores, 0

    def sample(self, contexts, rng):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.policy.sample(contexts, rng)

    def log_prob(self, contexts, actions):
        self.calls += 1
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


def test_actions_of_mix_have_their_recorded_density_despite_outages():
    """A coin that selects the safe policy during an outage must not make a row of the mix."""
    safe, tuned = small(3), FailingPolicy(small(4))
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
    assert chi_square(actions[source == "safe"], mixed) > 30  # so a wrong record would show


def test_a_mix_of_mixes_calls_every_policy():
    safe, old, tuned = small(3), FailingPolicy(small(4)), FailingPolicy(small(5))
    mix = tether.Tethered(tether.Tethered(safe, old, 1.0, family="mix"), tuned, 1.0, family="mix")
    prompts, stream = np.tile([1, 2], (600, 1)), rng()
    mixed = sum(s * first_tokens(p) for s, p in ((0.25, safe), (0.25, small(4)), (0.5, small(5))))
    assert chi_square(serve(mix, prompts, stream).actions, mixed) < 15
    old.error = ConnectionError("gone")
    assert all(serve(mix, prompts[:1], stream, safe=safe).from_safe[0] for _ in range(20))


def test_mix_falls_back_on_a_prompt_that_only_the_safe_policy_takes(server):
    mix = tether.Tethered(local(), served(server), 1.0, family="mix")
    long = np.full((1, 10), 6)
    assert all(serve(mix, long, np.random.default_rng(k)).from_safe[0] for k in range(12))


@pytest.mark.slow
def test_actions_that_cause_a_failure_are_not_redrawn_until_they_succeed():
    def no_number(contexts, actions, found):
        return np.where(actions[:, 0] % 2 == 0, np.nan, found)

    safe = small(3)
    policy = tether.Tethered(safe, FailingPolicy(safe, scores=no_number), 1.0)
    every = [
        serve(policy, np.tile([1, 2], (24, 1)), np.random.default_rng(seed)) for seed in range(4)
    ]
    assert all(found.from_safe.all() and "nan" in found.failures[0] for found in every)
    actions = np.concatenate([found.actions for found in every])
    even = first_tokens(safe)[::2].sum()
    assert abs((actions[:, 0] % 2 == 0).mean() - even) < 4 * 0.5 / np.sqrt(len(actions))


def test_refused_contexts_are_searched_for_only_once():
    """All three fail together; then single contexts fail, and later the remaining ones together."""
    outcomes = iter([False, True, False, False, True, False, False, True, True])

    def scores(contexts, actions, found):
        if next(outcomes):
            return found
        raise ValueError("not this one")

    policy = tether.Tethered(local(), FailingPolicy(local(), scores=scores), 1.0)
    assert serve(policy, PROMPTS[:3], rng()).from_safe.all()
    assert len(list(outcomes)) == 3


def test_a_failure_that_no_context_explains_is_not_retried():
    once = [ValueError("a hiccup")]

    def hiccup(contexts, actions, found):
        if once:
            raise once.pop()
        return found

    policy = tether.Tethered(local(), FailingPolicy(local(), scores=hiccup), 1.0)
    assert serve(policy, PROMPTS, rng()).from_safe.all()


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), TimeoutError("slow"), MemoryError("full"), RuntimeError("x")]
)
def test_an_unavailable_policy_is_called_once(error):
    gone = FailingPolicy(local(), error=error)
    found = serve(tether.Tethered(local(), gone, 2.0), np.tile([4, 5], (64, 1)), rng())
    assert (found.from_safe.all(), gone.calls, len(found.failures)) == (True, 1, 1)


def test_a_policy_that_becomes_unavailable_during_the_search():
    def scores(contexts, actions, found):
        if len(actions) < 64:
            raise TimeoutError("gone meanwhile")
        raise ValueError("one of them")

    policy = tether.Tethered(local(), FailingPolicy(local(), scores=scores), 0.5)
    found = serve(policy, np.tile([4, 5], (64, 1)), rng())
    assert found.from_safe.all()
    assert "gone meanwhile" in found.failures[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_interrupts_are_not_caught(error):
    with pytest.raises(type(error)):
        serve(tether.Tethered(local(), FailingPolicy(local(), error=error), 2.0), PROMPTS, rng())


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["auto", "metropolis"])
def test_a_context_at_its_draw_limit_does_not_affect_the_others(sampler):
    def far(contexts, actions, found):
        return found - 40 * (np.asarray(contexts)[:, 0] == 9)

    prompts = np.tile([4, 5], (16, 1))
    prompts[7, 0] = 9
    optimized = FailingPolicy(local(), scores=far)
    policy = tether.Tethered(local(), optimized, 0.5, max_draws=300, sampler=sampler)
    found = serve(policy, prompts, rng())
    assert np.flatnonzero(found.from_safe).tolist() == [7]
    assert "gave up" in found.failures[0]
    # If a component reaches its limit, its indices are not those of the prompts.
    above = tether.Tethered(policy, local(), 0.5)
    assert serve(above, prompts, rng(), safe=local()).from_safe.all()


def test_a_failing_safe_policy_is_an_error():
    with Loopback({"tuned": tiny.llama()}) as running:
        gone = served(running)
    with pytest.raises(RuntimeError, match="the safe policy's sample failed"):
        serve(tether.Tethered(gone, local(), 2.0), PROMPTS, rng())
    with pytest.raises(RuntimeError, match=f"Both policies are at {running.url}: a fallback needs"):
        serve(tether.Tethered(gone, served(running), 2.0), PROMPTS, rng())
    with pytest.raises(TypeError, match="safe must be the safe policy"):
        serve(local(), PROMPTS, rng())
    assert not serve(local(), PROMPTS, rng(), safe=local()).from_safe.any()


class ReachesDrawLimit:
    """A sampler that reaches its draw limit in one context."""

    def sample(self, contexts, rng):
        missing = np.flatnonzero(np.asarray(contexts) == 7)
        if len(missing):
            raise DrawLimitError("gave up", missing)
        return rng.normal(size=len(contexts))

    def log_prob(self, contexts, actions):
        return -0.5 * np.asarray(actions) ** 2


def test_a_component_of_mix_that_reaches_its_draw_limit_does_so_for_every_coin():
    contexts = np.array([1, 2, 7, 5])
    policy = tether.Tethered(ReachesDrawLimit(), tether.Gaussian(1.0), 1.0, family="mix")
    generator = rng()
    for _ in range(20):
        found = serve(policy, contexts, generator, safe=tether.Gaussian(0.0))
        assert found.from_safe.tolist() == [False, False, True, False]
