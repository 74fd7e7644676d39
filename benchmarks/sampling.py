"""How fast tethered draws are, against what numpy needs for the same amount of randomness.

python -m benchmarks.sampling
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tether

DRAWS = 1_000_000
ACTIONS = 50
SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(2.07, 1.0)


def best_of(work: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def gaussian() -> tuple[str, float, float]:
    """A million Gaussian tethered draws, and a million normals scored under both policies."""
    rng = np.random.default_rng(0)
    policy = tether.Tethered(SAFE, OPTIMIZED, 1.0)
    _, info = policy.sample_with_info(DRAWS, rng)

    def plain() -> None:
        actions = SAFE.sample(DRAWS, rng)
        SAFE.log_prob(DRAWS, actions)
        OPTIMIZED.log_prob(DRAWS, actions)

    name = f"Gaussian, acceptance {info.acceptance:.2f}"
    return name, best_of(lambda: policy.sample(DRAWS, rng)), best_of(plain)


def contextual() -> tuple[str, float, float]:
    """A million draws in a million contexts, and as many uniform numbers as there are scores."""
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(2, DRAWS, ACTIONS))
    safe, optimized = (tether.Categorical.from_logits(table) for table in tables)
    policy = tether.Tethered(safe, optimized, 1.5)
    contexts = np.arange(DRAWS)
    name = f"{ACTIONS} actions in {DRAWS:,} contexts"
    spent = best_of(lambda: policy.sample(contexts, rng), times=3)
    return name, spent, best_of(lambda: rng.random((DRAWS, ACTIONS)), times=3)


def acceptance() -> None:
    """Acceptance as predicted before any draw, and as observed."""
    rng = np.random.default_rng(0)
    print("beta      predicted  observed  draws an action")
    for beta in (1e-6, 0.1, 0.5, 1.0, 2.0, 10.0, 1e6):
        policy = tether.Tethered(SAFE, OPTIMIZED, beta)
        _, info = policy.sample_with_info(DRAWS // 5, rng)
        predicted = policy.acceptance(1)[0]
        draws = info.draws / info.actions
        print(f"{beta:<9g} {predicted:9.4f} {info.acceptance:9.4f} {draws:9.3f}")


def main() -> None:
    acceptance()
    for (name, seconds, unit), limit in ((gaussian(), 15), (contextual(), 6)):
        print(
            f"{name:<36} {seconds:6.3f} s, {seconds / unit:5.2f} × the {unit:.3f} s of plain "
            f"numpy (at most {limit} ×)"
        )


if __name__ == "__main__":
    main()
