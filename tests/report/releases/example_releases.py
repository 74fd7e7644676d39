"""Example releases for the report: real ones, in every state that a release can be in."""

from __future__ import annotations

from functools import cache

import numpy as np

import tether
from tether.report import render
from tether.rounds import ReleaseHistory

HOSTILE_NAME = "<script>document.title='owned'</script>"


def simulate(release, steps, risks, rng, keys=400):
    """Steps in which each system has its risk of every guardrail; the last one is not ended."""
    for number in range(steps):
        named = [f"{rng.integers(10**9)} {k}" for k in range(keys)]
        is_new = np.array(release.assign(named)) == "new"
        losses = {
            name: (rng.random(keys) < np.where(is_new, new, old)).astype(float)
            for name, (old, new) in risks.items()
        }
        release.observe(named, losses)
        if number < steps - 1:
            release.advance()


def started() -> ReleaseHistory:
    """Nothing is known of the old system, and no key has come."""
    with tether.Release("sqlite://", {"complaint": 0.02}, salt=b"x") as release:
        return release.history()


def ramp() -> ReleaseHistory:
    log = {"complaint": np.arange(2_000) < 20}
    with tether.Release("sqlite://", {"complaint": 0.02}, old=log, salt=b"x") as release:
        simulate(release, 6, {"complaint": (0.01, 0.012)}, np.random.default_rng(1), 1_000)
        return release.history()


def above_tolerated() -> ReleaseHistory:
    """The new system is bad from the start: it keeps a small share, and no alarm stands."""
    log = {"complaint": np.arange(2_000) < 20}
    with tether.Release("sqlite://", {"complaint": 0.03}, old=log, salt=b"x") as release:
        simulate(release, 3, {"complaint": (0.01, 0.4)}, np.random.default_rng(5), 2_000)
        return release.history()


def two_guardrails() -> ReleaseHistory:
    log = {"complaint": np.zeros(2_000), "refund": np.zeros(2_000)}
    guardrails = {"complaint": 0.05, "refund": (0.2, 2.0)}
    with tether.Release(
        "sqlite://", guardrails, old=log, promise=True, keys_per_step=400, wait=1, salt=b"x"
    ) as release:
        for k in range(5):
            named = [f"{k} {j}" for j in range(400)]
            release.assign(named)
            release.observe(named, {"complaint": np.zeros(400)})
            release.observe(named[:300], {"refund": np.full(300, 0.1)})
        return release.history()


def confident() -> ReleaseHistory:
    log = {"complaint": np.zeros(5_000)}
    with tether.Release(
        "sqlite://", {"complaint": 0.05}, old=log, confidence=0.9, step_duration=3600, salt=b"x"
    ) as release:
        simulate(release, 4, {"complaint": (0.005, 0.01)}, np.random.default_rng(2))
        return release.history()


def active_alarm() -> ReleaseHistory:
    """The new system becomes harmful, and its monitor notices."""
    log = {"complaint": np.arange(2_000) < 20}
    rng = np.random.default_rng(3)
    with tether.Release("sqlite://", {"complaint": 0.02}, old=log, salt=b"x") as release:
        simulate(release, 4, {"complaint": (0.01, 0.005)}, rng, 1_000)
        release.halt("a rumour", actor="ann")
        release.resume("it was none", actor="bob")
        simulate(release, 4, {"complaint": (0.01, 0.005)}, rng, 1_000)
        release.advance()
        simulate(release, 1, {"complaint": (0.01, 0.4)}, rng, 1_000)
        return release.history()


def cleared_alarm() -> ReleaseHistory:
    """Resumed, and no key has come since."""
    log = {"complaint": np.zeros(2_000)}
    with tether.Release("sqlite://", {"complaint": 0.02}, old=log, salt=b"x") as release:
        release.assign("ann")
        release.halt("a drill", actor="ann")
        release.resume("it is over", actor="bob")
        return release.history()


def cleared_after_a_step() -> ReleaseHistory:
    """A step began while the alarm stood; resumed, and no key has come since."""
    log = {"complaint": np.zeros(2_000)}
    with tether.Release("sqlite://", {"complaint": 0.02}, old=log, salt=b"x") as release:
        release.assign("ann")
        release.observe("ann", 0.0)
        release.halt("a drill", actor="ann")
        release.advance()
        release.resume("it is over", actor="bob")
        return release.history()


def hostile_names() -> ReleaseHistory:
    log = {HOSTILE_NAME: np.zeros(500), "[/] %s": np.zeros(500)}
    with tether.Release("sqlite://", dict.fromkeys(log, 0.1), old=log, salt=b"x") as release:
        simulate(release, 2, dict.fromkeys(log, (0.01, 0.01)), np.random.default_rng(4), 50)
        release.halt(HOSTILE_NAME, actor=f"{HOSTILE_NAME}\u202e")
        return release.history()


EXAMPLES = {
    function.__name__: cache(function)
    for function in (
        started,
        ramp,
        above_tolerated,
        two_guardrails,
        confident,
        active_alarm,
        cleared_alarm,
        cleared_after_a_step,
        hostile_names,
    )
}
"""Functions that make the examples, each at most once."""


def example(name: str) -> ReleaseHistory:
    return EXAMPLES[name]()


@cache
def rendered(name: str) -> str:
    return render(example(name))
