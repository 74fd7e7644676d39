"""What calibration costs, as ratios within one run, with limits.

The unit is one pass of `exp` and a sum over the columns that the calibration reads. AVX-512 makes
exponentials four times as fast and little else. So the limits are for numpy without it, as the
environment of `make speed` asks for on any machine; and for 10⁷ rows, since checks of a sample cost
as much with fewer. Both run on one thread: two on cores that share their units take a third more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import tether

LIMITS = {"clip": 4.0, "clip, a mixture": 4.0, "mix": 4.0, "tables of 8": 32.0, "draws of 4": 175.0}
"""Processor time over one pass of exp and sum."""
PROMISE_LIMIT = 4.2
"""Processor time of `promise=` over that of `alpha=`."""


def spent(call: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of a few calls."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def unit(columns: list[np.ndarray]) -> float:
    """One pass of exp and sum over the columns, block by block."""

    def run() -> float:
        total = 0.0
        for column in columns:
            flat = column.reshape(-1)
            for start in range(0, len(flat), 1 << 15):
                total += float(np.exp(flat[start : start + (1 << 15)]).sum())
        return total

    return spent(run)


def scores(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-densities of N(0, 1) and N(1, 0.8)."""
    return -(points**2) / 2, -(((points - 1) / 0.8) ** 2) / 2 - np.log(0.8)


def problems(rows: int) -> dict[str, tuple[str, tether.Log, tether.Proposals | None, list]]:
    """Name → family, log, proposals, and the columns that are read."""
    rng = np.random.default_rng(0)
    points, drawn = rng.normal(size=rows), rng.normal(1, 0.8, size=rows)
    safe, optimized = scores(points)
    draws = scores(drawn)
    loss = (points > 1.5) * 1.0
    plain, proposals = tether.Log(loss, safe, optimized), tether.Proposals(*draws)
    mixed = [np.logaddexp(s, o) - np.log(2) for s, o in ((safe, optimized), draws)]
    mixture = tether.Log(loss, safe, optimized, log_mix=mixed[0], safe_share=0.5)
    columns = [safe, optimized, *draws]
    found = {
        "clip": ("clip", plain, proposals, columns),
        "mix": ("mix", plain, proposals, columns),
    }
    drawn_too = tether.Proposals(*draws, log_mix=mixed[1])
    found["clip, a mixture"] = ("clip", mixture, drawn_too, [*columns, *mixed])
    few = max(rows // 10, 1000)
    logits = rng.normal(size=(2, few, 8))
    tables = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    chosen = (np.exp(tables[0, :, :-1]).cumsum(axis=1) < rng.random((few, 1))).sum(axis=1)
    own = [each[np.arange(few), chosen] for each in tables]
    listed = {"log_safe_all": tables[0], "log_optimized_all": tables[1]}
    log = tether.Log(loss[:few], *own, **listed)
    found["tables of 8"] = ("clip", log, None, [*tables])
    few = max(rows // 50, 1000)
    row = np.arange(few)
    label = np.tile(np.repeat(row, 4), 2)
    pair = scores(np.concatenate([rng.normal(size=4 * few), rng.normal(1, 0.8, 4 * few)]))
    source = np.repeat(["safe", "optimized"], 4 * few)
    log = tether.Log(loss[:few], safe[:few], optimized[:few], context=row)
    fresh = tether.Proposals(*pair, context=label, source=source)
    found["draws of 4"] = ("budgeted_clip(4)", log, fresh, [*pair, safe[:few]])
    return found


def main() -> None:
    """Print every ratio; exit with 1 if one is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    rows = int(parser.parse_args().rows)
    above = 0
    for name, (family, log, proposals, columns) in problems(rows).items():
        one = unit(columns)
        cost = spent(lambda: tether.calibrate(log, proposals, alpha=0.1, family=family))  # noqa: B023
        above += cost / one > LIMITS[name]
        print(
            f"{name:18s} {len(log):9d} rows  alpha {cost:7.3f} s, {cost / one:5.1f} passes of at "
            f"most {LIMITS[name]:g}",
            end="",
        )
        if log.has_mixture:
            print()
            continue
        chain = spent(lambda: tether.calibrate(log, proposals, promise=0.1, family=family))  # noqa: B023
        above += chain / cost > PROMISE_LIMIT
        print(f"; promise {chain / cost:4.1f} × alpha, of at most {PROMISE_LIMIT:g}", flush=True)
    raise SystemExit(1 if above else 0)


if __name__ == "__main__":
    main()
