"""Tether and its peers side by side: `python -m experiments.peers`.

Validity and power over many samples of worlds whose true risk is known; time and memory on one
larger sample; all in one run. MAPIE is left out where it is not installed.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments import harness, style
from experiments.peers import methods
from experiments.peers.methods import Method, Problem
from experiments.peers.worlds import Labelled


def validity(task: harness.Task, problem: Problem, index: int) -> list[dict]:
    """The true risk and the power of each method's choices, all on the same samples."""
    found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in problem.methods}
    for repeat in range(task["repeats"]):
        sample = problem.draw(np.random.default_rng([task["seed"], index, repeat]), problem.items)
        for method in problem.methods:
            if method.slow and repeat >= task["mapie_repeats"]:
                continue
            found[method.name].append(problem.fare(method.choose(sample), method))
    return [row(task, problem, method, np.array(found[method.name])) for method in problem.methods]


def row(task: harness.Task, problem: Problem, method: Method, found: np.ndarray) -> dict:
    """Means, standard errors, and whether the promise held within three of them."""
    risk, risk_error = harness.mean_and_error(found[:, 0])
    power, power_error = harness.mean_and_error(found[:, 1])
    above = float((found[:, 0] > problem.alpha + 1e-9).mean())
    allowed = task["delta"] + 3 * (task["delta"] * (1 - task["delta"]) / len(found)) ** 0.5
    kept = above <= allowed if method.promise == methods.PROBABILITY else None
    if kept is None:
        kept = bool(risk <= problem.alpha + 3 * risk_error)
    return {
        "task": problem.name,
        "method": method.name,
        "promise": method.promise,
        "alpha": problem.alpha,
        "risk": risk,
        "risk_error": risk_error,
        "above": above,
        "held": kept,
        "power": power,
        "power_error": power_error,
        "power_is": problem.power,
        "items": problem.items,
        "repeats": len(found),
        "seed": task["seed"],
    }


def cost(task: harness.Task, problem: Problem) -> list[dict]:
    """Processor seconds and megabytes of each method on one larger sample."""
    items = task["timed_rows" if problem.name.startswith("policy") else "timed_items"]
    sample = problem.draw(np.random.default_rng([task["seed"], 77]), items)
    return [
        {
            "timed_items": items,
            "seconds": _seconds(lambda m=method: m.choose(sample), 1 if method.slow else 5),
            "megabytes": _megabytes(lambda m=method: m.choose(sample)),
        }
        for method in problem.methods
    ]


def _seconds(run: Callable[[], Any], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return max(min(taken), 1e-6)


def _megabytes(run: Callable[[], Any]) -> float:
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def problems(task: harness.Task) -> list[Problem]:
    """All of them, without MAPIE where it is not installed."""
    world = Labelled(task["labels"])
    every = [
        methods.keep_true(world, task),
        methods.drop_false(world, task),
        methods.toss(task),
        methods.classify(task),
        *(methods.control(task, rows) for rows in task["rows"]),
    ]
    if not methods.mapie_installed():
        print("MAPIE is not installed (pip install 'tether[experiments]'): its rows are left out")
        for problem in every:
            problem.methods[:] = [each for each in problem.methods if not each.slow]
    return every


def draw(task: harness.Task, rows: Sequence[dict]) -> None:
    """Risk against alpha and power, a row of panels a task."""
    names = list(dict.fromkeys(each["task"] for each in rows))
    figure, axes = style.panels(2, len(names), width=4.6, height=1.75)
    for (left, right), name in zip(axes, names, strict=True):
        chosen = [each for each in rows if each["task"] == name][::-1]
        for place, each in enumerate(chosen):
            colour = style.BLUE if each["method"].startswith("tether") else style.GREY
            if each["promise"] == methods.NOTHING:
                colour = style.RED if not each["held"] else style.ORANGE
            for panel, key in ((left, "risk"), (right, "power")):
                error = 2 * each[f"{key}_error"]
                panel.errorbar(each[key], place, xerr=error, fmt="o", ms=5, color=colour)
        left.axvline(chosen[0]["alpha"], color=style.INK, lw=0.9, ls=(0, (4, 3)))
        left.set_yticks(range(len(chosen)), [each["method"] for each in chosen])
        right.set_yticks(range(len(chosen)), [])
        for panel in (left, right):
            panel.set_ylim(-0.6, len(chosen) - 0.4)
            panel.margins(x=0.12)
            panel.locator_params(axis="x", nbins=5)
        left.set_title(f"{name}: true risk (alpha {chosen[0]['alpha']:g})")
        right.set_title(chosen[0]["power_is"])
    task.figure("peers", figure)


def as_text(rows: Sequence[dict]) -> str:
    """The table of the documentation, in Markdown; time and memory beside tether's last row."""
    lines = [
        "| task | method | promised | risk | above | power | seconds | ratio | MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in rows:
        same = [other for other in rows if other["task"] == each["task"]]
        unit = next(other for other in same if other["method"].startswith("tether"))
        mark = "" if each["held"] else "**"
        lines.append(
            f"| {each['task']}, alpha {each['alpha']:g} | {each['method']} | {each['promise']} "
            f"| {mark}{each['risk']:.4f}{mark} ± {each['risk_error']:.4f} | {each['above']:.3f} "
            f"| {each['power']:.3f} ± {each['power_error']:.3f} | {each['seconds']:.4f} "
            f"| {each['seconds'] / unit['seconds']:.3g} | {each['megabytes']:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    rows = []
    for index, problem in enumerate(problems(task)):
        costs = cost(task, problem)
        found = validity(task, problem, index)
        rows += [each | more for each, more in zip(found, costs, strict=True)]
        print("\n".join(f"{e['task']:20s} {e['method']:32s} {e['risk']:.4f}" for e in found))
    task.table("peers", rows)
    (task.out / "peers.md").write_text(as_text(rows) + "\n", encoding="utf-8")
    draw(task, rows)
    print(as_text(rows))
    task.close()


if __name__ == "__main__":
    main()
