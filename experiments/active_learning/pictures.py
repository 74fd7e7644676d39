"""The figures of the experiment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import style
from experiments.active_learning.learner import COLUMNS
from experiments.active_learning.runs import Case

Floats = NDArray[np.float64]

COLOURS = {
    "unconstrained": style.RED,
    "online": style.ORANGE,
    "clip": style.BLUE,
    "clip, aware": style.GREEN,
    "safe only": style.GREY,
}
NAMES = {
    "unconstrained": "unconstrained",
    "online": "online (no log)",
    "clip": "tethered",
    "clip, aware": "tethered, aware of risk",
    "safe only": "safe policy only",
}
SHOWN = 0.2
"""The alpha whose iterations are drawn: the paper's."""


def held(found: dict[Case, Floats]) -> Any:
    """Risk and test error per iteration where the safe policy is safe."""
    chosen = [case for case in found if case.design == "held" and case.alpha == SHOWN]
    figure, axes = style.panels(len(chosen), 2, width=3.6, height=2.6)
    for place, case in enumerate(chosen):
        top, bottom = axes[:, place]
        for method, colour in COLOURS.items():
            risk = _of(found, case, method, "risk")
            if risk is None:
                continue
            steps = np.arange(1, risk.shape[1])
            style.band(top, steps, *_mean(risk[:, 1:]), colour, label=NAMES[method])
            if method not in ("unconstrained", "clip", "safe only"):
                continue
            error, of_all = (_of(found, case, method, name) for name in ("error", "error_of_all"))
            style.band(bottom, [0, *steps], *_mean(error / error[:, :1]), colour)
            bottom.plot((of_all / error[:, :1]).mean(axis=0), ":", color=colour)
        top.axhline(case.alpha, color=style.INK, lw=0.9, ls=(0, (5, 3)))
        top.set(title=case.name, ylim=(0, 1), xlabel="iteration")
        bottom.set(xlabel="iteration")
        if place == 0:
            style.label(top, steps[-1], 0.03, "dashed: alpha", ha="right", va="bottom")
            top.set_ylabel("risk of the policy that picks")
            bottom.set_ylabel("test MSE, of the initial one")
        if place == len(chosen) // 2:
            lines = [bottom.plot([], [], line, color=style.INK)[0] for line in ("-", ":")]
            bottom.legend(lines, ["training rows", "all labels"], loc="upper right", fontsize=8)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return figure


def alphas(found: dict[Case, Floats]) -> Any:
    """Mean deployed risk against alpha; hollow where the safe policy itself exceeds alpha."""
    chosen = [case for case in found if case.design in ("held", "steeper")]
    names = list(dict.fromkeys(case.name for case in chosen))
    figure, axes = style.panels(len(names), width=3.6, height=3.1)
    for panel, name in zip(np.atleast_1d(axes), names, strict=True):
        panel.plot([0.05, 0.35], [0.05, 0.35], color=style.INK, lw=0.9, ls=(0, (5, 3)))
        for case in (each for each in chosen if each.name == name):
            unsafe = _of(found, case, "safe only", "risk")[:, 1].mean() > case.alpha
            for place, (method, colour) in enumerate(COLOURS.items()):
                risk = _of(found, case, method, "risk")
                if risk is None:
                    continue
                mean, error = _mean(risk[:, 1:].mean(axis=1))
                panel.errorbar(
                    case.alpha + (place - 2) * 0.005 + 0.012 * (case.design == "steeper"),
                    mean,
                    2 * error,
                    color=colour,
                    marker="D" if case.design == "steeper" else "o",
                    markersize=5.5,
                    markerfacecolor="white" if unsafe else colour,
                )
        panel.set(title=name, xlabel="alpha", ylim=(0, 1), xticks=[0.1, 0.2, 0.3])
    first = np.atleast_1d(axes)[0]
    for method, colour in COLOURS.items():
        first.plot([], [], "o", color=colour, label=NAMES[method])
    first.plot([], [], "o", color=style.INK, markerfacecolor="white", label="safe policy not safe")
    first.set_ylabel("mean risk over all iterations")
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return figure


def printed(found: dict[Case, Floats]) -> Any:
    """The table as printed: the safe policy's risk, what was deployed, and how often only it."""
    chosen = [case for case in found if case.design == "printed"]
    figure, axes = style.panels(1, width=7.6, height=0.9 + 0.34 * len(chosen))
    for place, case in enumerate(chosen):
        safe, free, mean = (
            _of(found, case, method, "risk")[:, 1:].mean()
            for method in ("safe only", "unconstrained", "clip")
        )
        only = np.isneginf(_of(found, case, "clip", "log_beta")[:, 1:]).mean()
        axes.plot([mean, free], [place, place], color=style.GREY, lw=0.8, zorder=1)
        axes.plot(case.alpha, place, marker="|", color=style.INK, markersize=15, mew=1.6)
        axes.plot(safe, place, "o", color=style.GREY, markersize=10)
        axes.plot(mean, place, "o", color=style.BLUE, markersize=5.5)
        axes.plot(free, place, "o", color=style.RED, markersize=5.5)
        style.label(axes, 1.02, place, f"{only:.0%}", style.BLUE)
    style.label(axes, 1.02, -0.9, "no beta:\nsafe only", style.BLUE)
    marks = {
        "alpha": {"marker": "|", "color": style.INK, "markersize": 13, "mew": 1.6},
        "safe policy": {"marker": "o", "color": style.GREY, "markersize": 10},
        "tethered": {"marker": "o", "color": style.BLUE, "markersize": 5.5},
        "unconstrained": {"marker": "o", "color": style.RED, "markersize": 5.5},
    }
    for text, mark in marks.items():
        axes.plot([], [], ls="", label=text, **mark)
    axes.set(
        xlim=(0, 1),
        ylim=(len(chosen) - 0.5, -0.6),
        yticks=range(len(chosen)),
        yticklabels=[f"{case.name}, α = {case.alpha:g}" for case in chosen],
        xlabel="mean risk over ten iterations",
    )
    figure.legend(loc="outside upper center", ncols=len(marks), fontsize=9)
    return figure


ALL = {"held": held, "alphas": alphas, "printed": printed}


def _of(found: dict[Case, Floats], case: Case, method: str, column: str) -> Floats | None:
    """Seeds × iterations of one column of one method; None where it was not run in this case."""
    for each in found:
        same = (each.name, each.alpha, each.gamma) == (case.name, case.alpha, case.gamma)
        same &= each.design == case.design or (each.design, case.design) == ("variants", "held")
        if same and method in each.methods:
            return found[each][:, each.methods.index(method), :, COLUMNS.index(column)]
    return None


def _mean(values: Floats) -> tuple[Floats, Floats]:
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
