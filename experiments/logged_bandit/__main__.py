"""A real logged bandit, the Open Bandit sample: `python -m experiments.logged_bandit`.

Writes `floors.csv`, `policies.csv` and a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tether
from experiments import harness, style
from experiments.logged_bandit.bandit import (
    click_rate,
    distance,
    learned,
    load,
    uniform,
)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run, write, and return the rows of `floors.csv`."""
    task = harness.begin(__file__, arguments)
    floors, whole = [], []
    for campaign in task["campaigns"]:
        whole += policies(task, campaign)
        for name in task["policies"]:
            for floor in task["floors"]:
                floors.append(splits(task, campaign, name, floor))
    task.table("floors", floors)
    task.table("policies", whole)
    task.figure("floors", draw(floors, whole))
    for row in floors:
        print(
            f"{row['campaign']:6}{row['policy']:10} floor {row['floor']:.1%}  beta exists "
            f"{row['exists']:4.0%}  way {row['way']:4.0%}  held out "
            f"{row['held_out']:.2%} ± {row['held_out_se']:.2%}  on Thompson's rows "
            f"{row['check']:.2%} ± {row['check_se']:.2%} (of {row['check_effective']:.0f})"
        )
    task.close()
    return floors


def policies(task: harness.Task, campaign: str) -> list[dict[str, Any]]:
    """What each policy's click rate looks like from either log, all rows: nothing is calibrated."""
    random, thompson = (load(by, campaign, stand_in=task.quick) for by in ("random", "bts"))
    items = int(random.item.max()) + 1
    known = {"uniform": uniform(items)}
    known |= {name: learned(name, thompson, items) for name in task["policies"]}
    rows = []
    for name, policy in known.items():
        ours, theirs = click_rate(policy, random), click_rate(policy, thompson)
        rows.append(
            {
                "campaign": campaign,
                "policy": name,
                "items": items,
                "distance_from_uniform": distance(policy, known["uniform"]),
                "from_random": ours.rate,
                "from_random_se": ours.error,
                "from_random_effective": ours.effective,
                "from_thompson": theirs.rate,
                "from_thompson_se": theirs.error,
                "from_thompson_effective": theirs.effective,
            }
        )
    return rows


def splits(task: harness.Task, campaign: str, name: str, floor: float) -> dict[str, Any]:
    """Learn on half of Thompson's rows, calibrate on half of the random ones, look at the others.

    Loss is no click, so alpha is one less the floor. Positions are contexts.
    """
    random, thompson = (load(by, campaign, stand_in=task.quick) for by in ("random", "bts"))
    items = int(random.item.max()) + 1
    safe = uniform(items)
    found: list[dict[str, float]] = []
    for split in range(task["splits"]):
        rng = np.random.default_rng(split)
        (training, check), (log_rows, held_out) = thompson.halves(rng), random.halves(rng)
        optimized = learned(name, training, items)
        log = tether.make_log(
            safe,
            optimized,
            log_rows.position,
            log_rows.item,
            1 - log_rows.click,
            propensities=log_rows.propensity,  # compared with the uniform policy's
        )
        result = tether.calibrate(log, alpha=1 - floor)
        policy = tether.Tethered(safe, optimized, result)
        ours, theirs = click_rate(policy, held_out), click_rate(policy, check)
        found.append(
            {
                "exists": result.exists,
                "way": distance(policy, safe) / distance(optimized, safe),
                "all_the_way": np.isposinf(result.log_beta),
                "clicks": log_rows.click.sum(),
                "promise": result.promise if split < task["promises"] else np.nan,
                "held_out": ours.rate,
                "held_out_se": ours.error,
                "held_out_effective": ours.effective,
                "check": theirs.rate,
                "check_se": theirs.error,
                "check_effective": theirs.effective,
            }
        )
    row: dict[str, Any] = {"campaign": campaign, "policy": name, "floor": floor}
    row |= {"alpha": 1 - floor, "splits": task["splits"], "rows": len(log)}
    return row | {key: float(np.nanmean([each[key] for each in found])) for key in found[0]}


def draw(floors: list[dict[str, Any]], whole: list[dict[str, Any]]) -> Any:
    """Held-out click rates with two standard errors, beside the floor and the uniform policy's."""
    campaigns = list(dict.fromkeys(row["campaign"] for row in floors))
    figure, axes = style.panels(len(campaigns), width=3.6, height=3.2)
    colours = {"frozen": style.BLUE, "neglected": style.PURPLE}
    asked = sorted({row["floor"] for row in floors})
    for panel, campaign in zip(np.atleast_1d(axes), campaigns, strict=True):
        safe = next(
            row for row in whole if (row["campaign"], row["policy"]) == (campaign, "uniform")
        )
        low, high = (
            100 * (safe["from_random"] + side * safe["from_random_se"]) for side in (-2, 2)
        )
        panel.axhspan(low, high, color=style.GREY, alpha=0.15, lw=0)
        panel.axhline(100 * safe["from_random"], color=style.GREY, lw=1)
        ends = [100 * asked[0] - 0.05, 100 * asked[-1] + 0.05]
        panel.plot(ends, ends, color=style.INK, lw=0.9, ls=(0, (5, 3)))
        for row in (each for each in floors if each["campaign"] == campaign):
            shift = -0.008 if row["policy"] == "frozen" else 0.008
            at, rate = 100 * row["floor"] + shift, 100 * row["held_out"]
            colour = colours[row["policy"]]
            panel.errorbar(at, rate, 200 * row["held_out_se"], color=colour, marker="o", ms=5)
            style.label(
                panel, at, 0.04, f"{row['way']:.0%}", colour, ha="right" if shift < 0 else "left"
            )
        panel.set(title=campaign, ylim=(0, 1.2))
        panel.set_xlabel("click rate to keep, %\n(in colour: how much of the way was gone)")
        panel.set_xticks([100 * floor for floor in asked])
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("click rate held out, %")
    for name, colour in colours.items():
        first.plot([], [], "o", color=colour, label=f"tethered to uniform: {name}")
    first.plot([], [], color=style.GREY, label="uniform")
    first.plot([], [], color=style.INK, lw=0.9, ls=(0, (5, 3)), label="what must be kept")
    figure.legend(loc="outside upper center", ncols=4, fontsize=9)
    return figure


if __name__ == "__main__":
    main()
