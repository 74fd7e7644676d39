"""Histories of real runs of both kinds, with the same salts and draws every time."""

from __future__ import annotations

import itertools
from functools import cache
from unittest.mock import patch

import numpy as np

import tether
from tether.runs import Controller, Release, relative

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[31m\u202e"
)


def release(steps=8, bad_from=99, store="sqlite://", losses=("complaint", "seconds"), **options):
    """A release of two guardrails whose new system turns bad at a step."""
    rng, size = np.random.default_rng(3), 400
    first, second = losses
    limits = {first: 0.05, second: relative(0.3, ratio=0.2, bound=30.0)}
    made = Release(store, limits, step=size, **options)
    for start in range(0, steps * size, size // 4):
        keys = [f"user {k}" for k in range(start, start + size // 4)]
        is_new = np.array(made.assign(keys)) == "new"
        failing = 0.4 if start >= bad_from * size else 0.009
        failed = rng.random(len(keys)) < np.where(is_new, failing, 0.012)
        seconds = np.minimum(rng.gamma(2.0, np.where(is_new, 1.9, 2.0)), 30.0)
        made.observe(keys, {first: failed.astype(float), second: seconds})
    return made


def controller(rounds=4, **options):
    """A run whose optimizer goes further every round; with rewards."""
    rng = np.random.default_rng(5)
    made = Controller(tether.Gaussian(0.0, 1.0), "sqlite://", **({"alpha": 0.15} | options))
    for number in range(rounds):
        policy = tether.Gaussian(0.4 * number, 1.0) if number else None
        begun = made.begin(policy, **({"name": f"model {number}"} if number else {}))
        taken = begun.act(400, rng)
        made.observe(taken.ids, taken.actions > 1.6, rewards=taken.actions)
    return made


def _resumed():
    made = release(steps=7, bad_from=6)
    made.resume("the cause is mended", actor="ann")
    return made


def _halted():
    made = controller(rounds=2)
    made.halt(HOSTILE, actor=HOSTILE)
    return made


EXAMPLES = {
    "release": release,
    "stopped": lambda: release(bad_from=6),
    "resumed": _resumed,
    "empty": lambda: Release("sqlite://", {"complaint": 0.05}, old={"complaint": 0.01}),
    "hostile": lambda: release(steps=3, losses=(HOSTILE, "b")),
    "controller": controller,
    "halted": _halted,
    "ramp": lambda: controller(rounds=2, family="ramp(100)"),
}


@cache
def example(name):
    """The history of an example."""
    salts = itertools.count()
    with (
        patch("secrets.token_bytes", lambda size: next(salts).to_bytes(size, "big")),
        EXAMPLES[name]() as made,
    ):
        return made.history()
