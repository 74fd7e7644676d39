"""Constrained active learning on four data sets: `python -m experiments.active_learning`.

Two designs: the paper's table as printed, and that of the authors' released scripts, where the safe
policy is safe. Writes `summary.csv` with paired differences over seeds, and a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import harness, style
from experiments.active_learning import learner, worlds
from experiments.active_learning.learner import COLUMNS

Floats = NDArray[np.float64]
EARLY = 10
"""The first iterations, for which the paper's figure is."""
COLOURS = dict(zip(learner.METHODS, (style.GREY, style.RED, style.BLUE, style.GREEN), strict=True))


@dataclass(frozen=True, eq=False)
class Case:
    """A design on one data set at one alpha; `settings` are all that a learner needs."""

    design: str
    name: str
    alpha: float
    settings: Mapping[str, Any]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.settings["methods"])

    def seed(self, seed: int, *, stand_in: bool) -> Floats:
        """Methods × iterations × columns; every method of a seed starts from the same world."""
        rng = np.random.default_rng([seed, 0])
        gamma = self.settings["gamma"][self.name]
        world = worlds.build(self.name, self.alpha, gamma, rng, stand_in=stand_in)
        return np.array(
            [learner.learn(world, each, self.alpha, self.settings, seed) for each in self.methods]
        )


def cases(settings: Mapping[str, Any]) -> list[Case]:
    """Every design on each of its data sets, at each of its alphas."""
    shared = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    return [
        Case(design, name, alpha, shared | table)
        for design, table in settings["designs"].items()
        for name in table["gamma"]
        for alpha in table["alphas"]
    ]


def work(stand_in: bool, job: tuple[Case, int]) -> Floats:
    """One seed of a case, in one thread: the matrices are small."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return job[0].seed(job[1], stand_in=stand_in)


def summarize(case: Case, rows: Floats) -> list[dict[str, Any]]:
    """A row a method: risk, how often only the safe policy was served, and the test error.

    `over_safe` and `over_clip` are differences of the test error within seeds, relative to those of
    the safe policy only and of clip.
    """
    last, table = rows.shape[2] - 1, []
    final = dict(zip(case.methods, rows[:, :, last, COLUMNS.index("error")].T, strict=True))
    for place, method in enumerate(case.methods):
        risk, log_beta = (rows[:, place, 1:, COLUMNS.index(name)] for name in COLUMNS[:2])
        row: dict[str, Any] = {
            "design": case.design,
            "data": case.name,
            "alpha": case.alpha,
            "method": method,
            "seeds": len(rows),
            "safe_risk": float(rows[:, case.methods.index("safe only"), 1, 0].mean()),
            "only_safe": float(np.isneginf(log_beta).mean()) if "clip" in method else "",
        }
        measured = {
            "risk_first_ten": risk[:, :EARLY].mean(axis=1),
            "risk": risk.mean(axis=1),
            "mse": final[method],
            "over_safe": final[method] / final["safe only"] - 1,
            "over_clip": final[method] / final["clip"] - 1,
        }
        for name, values in measured.items():
            row[name], row[f"{name}_error"] = harness.mean_and_error(values)
        table.append(row)
    return table


def draw(found: Mapping[Case, Floats]) -> Any:
    """Risk and test error per iteration in the second design, a column a data set."""
    chosen = [case for case in found if case.design == "scripts"]
    figure, axes = style.panels(len(chosen), 2, width=3.3, height=2.6)
    for case, (top, bottom) in zip(chosen, axes.T, strict=True):
        for place, method in enumerate(case.methods):
            risk, error = (found[case][:, place, :, COLUMNS.index(n)] for n in ("risk", "error"))
            steps = np.arange(risk.shape[1])
            relative = error / error[:, :1]
            for panel, values in ((top, risk[:, 1:]), (bottom, relative)):
                mean = values.mean(axis=0)
                spread = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                style.band(panel, steps[-len(mean) :], mean, spread, COLOURS[method], label=method)
        top.axhline(case.alpha, color=style.INK, lw=0.9, ls=(0, (5, 3)))
        top.set(title=case.name, ylim=(0, 1))
        bottom.set(xlabel="iteration")
    axes[0, 0].set_ylabel("risk of the policy that picks")
    axes[1, 0].set_ylabel("test MSE, of the initial one")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return figure


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run, write, and return the rows of the summary."""
    task = harness.begin(__file__, arguments)
    jobs = [(case, seed) for case in cases(task.settings) for seed in range(task["seeds"])]
    done = harness.each(task["processes"], partial(work, task.quick), jobs)
    found: dict[Case, list[Floats]] = {}
    for (case, _), rows in zip(jobs, done, strict=True):
        found.setdefault(case, []).append(rows)
    tables = {case: np.array(rows) for case, rows in found.items()}
    summary = [row for case, rows in tables.items() for row in summarize(case, rows)]
    task.table("summary", summary)
    task.figure("scripts", draw(tables))
    for row in summary:
        print(
            f"{row['design']:8} {row['data']:11} alpha {row['alpha']:g} {row['method']:14} "
            f"risk {row['risk']:.3f} ± {row['risk_error']:.3f}, test error over clip "
            f"{row['over_clip']:+.1%} ± {row['over_clip_error']:.1%}"
        )
    task.close()
    return summary


if __name__ == "__main__":
    from experiments.active_learning import __main__ as named  # as other processes import it

    named.main()
