"""How many steps a release takes, by how many keys a step has.

python -m benchmarks.release_step_size

The world of the tutorial: the old system fails for 1 % of the keys, the new one for 1.5 %, 2 % is
promised, and 2,000 rows of the old system are known at the start. Ten releases for each size.
"""

from __future__ import annotations

import tempfile

import numpy as np

import tether

SIZES = (300, 1000, 2000, 5000)
RELEASES, MOST_STEPS, REACHED = 10, 20, 0.9
RISKS = {"old": 0.010, "new": 0.015}


def steps_until_reached(keys: int, seed: int) -> float:
    """The first step whose share is at least `REACHED`; infinite if none of the first is."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        known = rng.random(2000) < RISKS["old"]
        release = tether.Release(
            f"{folder}/release.db",
            {"complaint": 0.02},
            old={"complaint": known.astype(float)},
            promise=True,
            salt=str(seed).encode(),
        )
        with release:
            for step in range(1, MOST_STEPS + 1):
                if release.share >= REACHED:
                    return step
                names = [f"{step}.{number}" for number in range(keys)]
                systems = release.assign(names)
                lost = rng.random(keys) < [RISKS[system] for system in systems]
                release.observe(names, {"complaint": lost.astype(float)}, system=systems)
                release.advance()
    return np.inf


def main() -> None:
    """Print one line per size."""
    for keys in SIZES:
        steps = [steps_until_reached(keys, seed) for seed in range(RELEASES)]
        late = sum(np.isinf(steps))
        print(
            f"{keys:5,} keys a step: a share of {REACHED:.0%} in step {np.median(steps):g} "
            f"(median of {RELEASES}), not within {MOST_STEPS} steps in {late}",
            flush=True,
        )


if __name__ == "__main__":
    main()
