"""What thresholds cost, as ratios within one run.

The unit is one pass of `exp` and sum (`benchmarks.exp_pass`) over the 10⁷ scores of 10⁶ items with
10 claims each, on the same machine and in the same run; an argsort is shown beside. Memory is the
peak of what is allocated beyond the input, in units of the scores. MAPIE (the optional group
`bench`) is shown beside on the tasks that it can express.

    python -m benchmarks.thresholds [items] [--memory]

`--memory` measures memory alone, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tether
from benchmarks.exp_pass import exp_and_sum

METHODS = (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt)
CLAIMS_PER_ITEM = 10


def make_claims(items: int, seed: int = 0) -> tether.Claims:
    """Claims that are true with the probability that their score says."""
    rng = np.random.default_rng(seed)
    scores = rng.random(items * CLAIMS_PER_ITEM)
    offsets = np.arange(0, len(scores) + 1, CLAIMS_PER_ITEM)
    return tether.Claims(scores, rng.random(len(scores)) < scores, offsets)


def seconds(task: Callable[[], Any], repeats: int = 5) -> float:
    """The best processor time of a few runs: on a shared machine, the rest is the neighbours'."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def extra_memory(task: Callable[[], Any]) -> int:
    """The most bytes allocated at once while a task runs."""
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def four_methods(claims: tether.Claims) -> list[float]:
    """One sort and sweep, four thresholds."""
    swept = tether.risk.sweep(claims)
    return [method(swept, alpha=0.1).threshold for method in METHODS]


def speed(items: int, *, memory_alone: bool = False) -> None:
    claims = make_claims(items)
    scores = claims.scores
    unit = seconds(lambda: exp_and_sum([scores]))
    tasks: dict[str, tuple[Callable[[], Any], float | None]] = {
        "exp and sum of the scores (the unit)": (lambda: exp_and_sum([scores]), None),
        "np.argsort of the scores": (lambda: np.argsort(scores), None),
        "gcrc": (lambda: tether.gcrc(claims, alpha=0.1), 130),
        "gcrc without stability": (
            lambda: tether.gcrc(claims, alpha=0.1, measure_stability=False),
            85,
        ),
        "one sweep, all four methods": (lambda: four_methods(claims), 210),
    }
    print(f"{items:,} items × {CLAIMS_PER_ITEM} claims; time against {unit:.2f} s, memory against")
    print(f"{scores.nbytes / 1e6:.0f} MB of scores; processor time, best of five runs")
    print(
        f"{'task':38s} {'seconds':>8s} {'ratio':>6s} {'at most':>8s} {'memory':>7s} {'at most':>8s}"
    )
    for name, (task, most) in tasks.items():
        held = extra_memory(task) / scores.nbytes
        took = np.nan if memory_alone else seconds(task)
        time_limit, memory_limit = ("", "") if most is None else (f"{most:g}", "4")
        measured = f"{took:8.2f} {took / unit:6.2f} {time_limit:>8s} {held:7.2f}"
        print(f"{name:38s} {measured} {memory_limit:>8s}", flush=True)


def beside_mapie(items: int = 10_000, thresholds: int = 200) -> None:
    try:
        from mapie.risk_control import (
            BinaryClassificationController,
            MultiLabelClassificationController,
        )
    except ImportError:
        print("\nMAPIE is not installed: pip install 'tether[bench]'")
        return
    drawn = make_claims(items)
    scores = drawn.scores.reshape(items, CLAIMS_PER_ITEM)
    labels = drawn.supported.reshape(items, CLAIMS_PER_ITEM).astype(int)
    labels[labels.sum(axis=1) == 0, 0] = 1  # MAPIE refuses an item without any true label
    claims = tether.Claims(drawn.scores, labels.ravel(), drawn.offsets)
    grid = np.linspace(0, 1, thresholds, endpoint=False)

    def multilabel(risk: str, **more: Any) -> Any:
        controller = MultiLabelClassificationController(
            lambda rows: scores[rows[:, 0]], risk=risk, predict_params=grid, **more
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return controller.calibrate(np.arange(items)[:, None], labels).best_predict_param

    flat, truth = claims.scores, claims.supported.astype(int)
    hundred = np.linspace(0, 0.99, 100)

    def binary() -> Any:
        controller = BinaryClassificationController(
            lambda rows: np.stack([1 - flat[rows[:, 0]], flat[rows[:, 0]]], axis=1),
            risk="precision",
            target_level=0.9,
            list_predict_params=hundred,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return controller.calibrate(np.arange(len(flat))[:, None], truth).best_predict_param

    rows: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        (
            f"recall ≥ 0.9, CRC, {thresholds} thresholds",
            lambda: multilabel("recall", method="crc", target_level=0.9),
            lambda: tether.crc(claims, grid, alpha=0.1, loss="miss").threshold,
        ),
        (
            "recall ≥ 0.9, CRC, every score",
            lambda: None,
            lambda: tether.crc(claims, alpha=0.1, loss="miss").threshold,
        ),
        (
            # Not 0.9: MAPIE counts an item of which nothing is kept as wrong, and finds nothing.
            f"precision ≥ 0.7, LTT, {thresholds} thresholds",
            lambda: multilabel("precision", target_level=0.7, confidence_level=0.9),
            lambda: tether.ltt(claims, grid, alpha=0.3, procedure="holm").threshold,
        ),
        (
            "precision ≥ 0.7, gCRC, every score",
            lambda: None,
            lambda: tether.gcrc(claims, alpha=0.3).threshold,
        ),
        (
            "binary precision ≥ 0.9, LTT with Holm",
            binary,
            lambda: (
                tether.ltt(
                    tether.ScoredLabels(flat, truth), hundred, alpha=0.1, procedure="holm"
                ).threshold
            ),
        ),
    ]
    print(f"\n{items:,} items × {CLAIMS_PER_ITEM} labels (binary: {len(flat):,} items)")
    print(f"{'task':42s} {'MAPIE s':>8s} {'tether s':>9s} {'ratio':>8s}   thresholds found")
    for name, theirs, ours in rows:
        found, mine = theirs(), ours()
        took = seconds(ours)
        if found is None:
            print(f"{name:42s} {'–':>8s} {took:9.4f} {'':>8s}   – and {mine:.4f}", flush=True)
            continue
        other = seconds(theirs, repeats=1)
        other_found = float(np.ravel(found)[0])
        print(
            f"{name:42s} {other:8.2f} {took:9.4f} {other / took:7.0f}×   "
            f"{other_found:.4f} and {mine:.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    speed(asked.items, memory_alone=asked.memory)
    if not asked.memory:
        beside_mapie()


if __name__ == "__main__":
    main()
