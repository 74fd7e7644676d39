"""The rows of the new system are those that were decided: the promise needs it.

A world in which the new upstream fails on hard requests, and the old one answers them late, which
costs something. The rows come from the relay itself, with upstreams that answer at once.
"""

import asyncio

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.service.gateway.answer_parts import UpstreamError
from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.gateway.relay import Question, Relay
from tether.service.gateway.upstream_answer import UpstreamAnswer
from tether.service.settings.gateway_table import GatewaySettings, UpstreamSettings

ALPHA, OLD_RISK, HARD, LATE_LOSS = 0.05, 0.02, 0.2, 0.5
NEW_RISK = HARD * LATE_LOSS  # with its fallback; where the new upstream answers nothing is lost
OLD_ROWS, ROWS, REPEATS = 1_000, 200, 40


class StubUpstream:
    """Answers at once; `fails_on_hard` ones do not answer hard requests."""

    def __init__(self, relay, name, fails_on_hard):
        self.settings = getattr(relay, name).settings
        self._fails_on_hard = fails_on_hard

    async def post(self, path, content, headers):
        if self._fails_on_hard and content == b"hard":
            raise UpstreamError("slow")
        return UpstreamAnswer(200, (), b"{}")


def make_relay():
    settings = UpstreamSettings("http://127.0.0.1:1/v1")
    pair = GatewaySettings(settings, settings, failures_until_pause=10**6)
    relay = Relay(pair, GatewayMetrics(CollectorRegistry()))
    for name in ("old", "new"):
        setattr(relay, name, StubUpstream(relay, name, fails_on_hard=name == "new"))
    return relay


async def rows(relay, count, rng):
    """Of so many units that were decided for the new system: who answered, and the losses."""
    served, losses = [], []
    for is_hard, coin in zip(rng.random(count) < HARD, rng.random(count), strict=True):
        found = await relay.ask("new", Question("", b"hard" if is_hard else b"easy", ()))
        served.append(found.served)
        losses.append(float(found.served == "old" and coin < LATE_LOSS))
    return np.array(served), np.array(losses)


def served_risk(count_rows, seed):
    """The mean risk of what is served after a step, and its standard error."""
    relay, rng = make_relay(), np.random.default_rng(seed)
    guardrails = {"harm": Guardrail(alpha=ALPHA)}

    async def main():
        risks = []
        for _ in range(REPEATS):
            total = float(rng.binomial(OLD_ROWS, OLD_RISK))
            served, losses = await rows(relay, ROWS, rng)
            counted = losses[count_rows(served)]
            new = {"harm": ArmCounts(len(counted), float(counted.sum()))}
            old = {"harm": ArmCounts(OLD_ROWS, total)}
            share = ramp_share(guardrails, old=old, new=new).share
            risks.append((1 - share) * OLD_RISK + share * NEW_RISK)
        return np.mean(risks), np.std(risks) / np.sqrt(REPEATS)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("count_rows", "holds"),
    [
        (lambda served: np.full(len(served), True), True),
        (lambda served: served == "new", False),  # wrong: only those that the new one answered
    ],
)
def test_the_risk_of_what_is_served_is_at_most_alpha_if_all_decided_rows_count(count_rows, holds):
    risk, error = served_risk(count_rows, seed=1)
    assert (risk <= ALPHA + 3 * error) == holds
    assert risk > OLD_RISK + 3 * error  # it does something
