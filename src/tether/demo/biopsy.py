"""The demonstration: whom to send to biopsy, on data that ships with scikit-learn.

A clinic refers almost every patient to biopsy. A model trained on a hundred patients would spare
most of those without cancer, and would miss cancers too. How far may the clinic follow the model,
if it tolerates so many missed cancers in a hundred patients? Everything is repeated on many random
splits of the Wisconsin breast-cancer data; `run` prints a table and saves a picture.

Sizes, features and alphas were chosen so that the difference can be seen: with other numbers of
training patients the naive threshold exceeds alpha at fewer of the alphas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.calibrate import calibrate
from tether.policies.categorical import Categorical
from tether.policies.log_from_policies import make_log
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered

ALPHAS = (0.05, 0.06, 0.08, 0.10)
FAMILIES = ("clip", "mix")
SPLITS = 200
TRAINED, LOGGED = 100, 330
"""Patients to train on and patients in the log; the other 139 are held out."""
MEASUREMENTS = 20
"""The model sees the mean and the error of ten measurements of cell nuclei, not the extremes."""
WATCHED = 0.1
"""The share of patients whom the safe policy watches rather than refers."""
BOLDNESS, NOISE = 3.0, 1.5
"""The optimized policy refers at log-odds of about 3, and wavers around it with this scale."""
WATCH, REFER = "watch", "refer"


@dataclass(frozen=True)
class Outcome:
    """Cancers missed and needless biopsies avoided, for each hundred patients, in every split."""

    name: str
    alpha: float | None
    missed: Floats
    avoided: Floats

    @staticmethod
    def mean(values: Floats) -> tuple[float, float]:
        """The average over splits and its standard error."""
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))

    @property
    def over(self) -> bool:
        """Whether more cancers are missed than alpha tolerates, by more than chance explains."""
        risk, error = self.mean(self.missed)
        return self.alpha is not None and risk > 100 * self.alpha + 2 * error


class Clinic:
    """One random split: a model is trained, the safe policy has acted, some patients are left."""

    def __init__(
        self, features: Floats, malignant: NDArray[np.bool_], rng: np.random.Generator
    ) -> None:
        order = rng.permutation(len(features))
        trained, logged, left = np.split(order, [TRAINED, TRAINED + LOGGED])
        self.rng, self.features, self.malignant = rng, features, malignant
        self.trained, self.left = trained, left
        self.score = trained_score(features[trained], malignant[trained])
        self.safe = Categorical.from_probabilities([WATCHED, 1 - WATCHED], actions=[WATCH, REFER])
        model = Categorical.from_logits(
            lambda x: np.column_stack([np.zeros(len(x)), (self.score(x) - BOLDNESS) / NOISE]),
            actions=[WATCH, REFER],
        )
        self.optimized = Mixture.blend(model, self.safe, safe_share=0.02)
        actions = self.safe.sample(features[logged], rng)
        missed = (actions == WATCH) & malignant[logged]
        self.log = make_log(self.safe, self.optimized, features[logged], actions, missed)

    def tethered(self, alpha: float, family: str) -> Policy:
        """What may be deployed at this alpha, known from the log alone."""
        return Tethered(self.safe, self.optimized, calibrate(self.log, alpha=alpha, family=family))

    def naive(self, alpha: float) -> NDArray[Any]:
        """The boldest threshold that missed at most alpha of the patients it was trained on."""
        score, malignant = self.score(self.features[self.trained]), self.malignant[self.trained]
        order = np.argsort(score)
        missed = np.cumsum(malignant[order]) / len(order)
        cut = score[order][np.searchsorted(missed, alpha + 1e-9) - 1]
        return np.where(self.score(self.features[self.left]) <= cut, WATCH, REFER)

    def deployed(self, policy: Policy) -> NDArray[Any]:
        """What a policy does with the patients who are left."""
        return policy.sample(self.features[self.left], self.rng)

    def counted(self, actions: NDArray[Any]) -> tuple[float, float]:
        """Cancers missed and needless biopsies avoided, for each hundred patients."""
        watched, malignant = actions == WATCH, self.malignant[self.left]
        return 100 * (watched & malignant).mean(), 100 * (watched & ~malignant).mean()


def run(
    out: str | Path = ".",
    *,
    splits: int = SPLITS,
    seed: int = 0,
    show: Callable[[str], Any] = print,
) -> list[Outcome]:
    """Run the demonstration, print its table and save `demo.png` in the folder `out`.

    Takes less than a minute and is the same every time. Needs the extra `demo`.
    """
    if isinstance(splits, bool) or not isinstance(splits, (int, np.integer)) or splits < 2:
        raise ValueError(
            f"splits must be a whole number of at least 2, since a standard error is shown, got "
            f"{splits!r}"
        )
    features, malignant = patients()
    rows: dict[tuple[str, float | None], list[tuple[float, float]]] = {}
    for split in range(splits):
        clinic = Clinic(features, malignant, np.random.default_rng([seed, split]))

        def note(
            name: str, alpha: float | None, actions: NDArray[Any], to: Clinic = clinic
        ) -> None:
            rows.setdefault((name, alpha), []).append(to.counted(actions))

        note("safe", None, clinic.deployed(clinic.safe))
        note("optimized", None, clinic.deployed(clinic.optimized))
        for alpha in ALPHAS:
            note("naive threshold", alpha, clinic.naive(alpha))
            for family in FAMILIES:
                actions = clinic.deployed(clinic.tethered(alpha, family))
                note(f"tether, {family}", alpha, actions)
    outcomes = [Outcome(*key, *np.array(pairs).T) for key, pairs in rows.items()]
    picture = Path(out) / "demo.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    _print_table(outcomes, splits, show)
    for sentence in readings(outcomes):
        show(sentence)
    draw(outcomes, picture)
    show(f"Picture: {picture}")
    return outcomes


def readings(outcomes: list[Outcome]) -> tuple[str, str]:
    """What to see in the cancers missed, and in the biopsies avoided: a sentence each."""
    at = {(each.name, each.alpha): each for each in outcomes}
    over = sum(at["naive threshold", alpha].over for alpha in ALPHAS)
    kept = sum(not any(at[f"tether, {f}", alpha].over for f in FAMILIES) for alpha in ALPHAS)
    safe, clip = at["safe", None], at["tether, clip", ALPHAS[0]]
    missed = (
        f"The naive threshold looked safe on the patients it was tuned on, and misses clearly more "
        f"cancers than tolerated at {over} of {len(ALPHAS)} alphas; tether keeps to alpha at "
        f"{kept} of {len(ALPHAS)}."
    )
    avoided = (
        f"Tolerating {100 * ALPHAS[0]:g} missed in 100, tether (clip) spares "
        f"{clip.avoided.mean():.0f} in 100 a needless biopsy where the safe policy spares "
        f"{safe.avoided.mean():.0f}, and misses {clip.missed.mean():.1f} cancers where that one "
        f"misses {safe.missed.mean():.1f}."
    )
    return missed, avoided


def patients() -> tuple[Floats, NDArray[np.bool_]]:
    """Measurements of every patient, and who has cancer."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise ImportError("the demonstration needs pip install 'tether[demo]'") from error
    data = load_breast_cancer()
    return data.data[:, :MEASUREMENTS], data.target == 0


def trained_score(
    features: Floats, malignant: NDArray[np.bool_]
) -> Callable[[Floats], NDArray[Any]]:
    """The log-odds of cancer, by a logistic regression on these patients."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cholesky"))
    score: Callable[[Floats], NDArray[Any]] = model.fit(features, malignant).decision_function
    return score


def _print_table(outcomes: list[Outcome], splits: int, show: Callable[[str], Any]) -> None:
    title = f"Of 100 patients, over {splits} random splits (± one standard error)"
    heads = ("policy", "alpha", "cancers missed", "needless biopsies avoided")
    lines = []
    for each in outcomes:
        missed, avoided = each.mean(each.missed), each.mean(each.avoided)
        alpha = "" if each.alpha is None else f"{100 * each.alpha:g}"
        mark = "  over alpha" if each.over else ""
        lines.append(
            (
                each.name,
                alpha,
                f"{missed[0]:5.1f} ± {missed[1]:.1f}{mark}",
                f"{avoided[0]:5.1f} ± {avoided[1]:.1f}",
            )
        )
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        show(title)
        for line in (heads, *lines):
            show("{:<16} {:>6}  {:<26} {}".format(*line))
        return
    table = Table(*heads, title=title, title_justify="left")
    above = outcomes[0].alpha
    for each, line in zip(outcomes, lines, strict=True):
        if each.alpha != above:
            table.add_section()
        table.add_row(*line, style="red" if each.over else None)
        above = each.alpha
    console = Console(width=88)
    with console.capture() as captured:
        console.print(table)
    show(captured.get().rstrip())


STYLES = {
    "naive threshold": ("#c8442f", "-"),
    "tether, clip": ("#1f5fa8", "-"),
    "tether, mix": ("#3aa6a0", "-"),
    "optimized": ("#8a8a8a", (0, (1, 1.6))),
    "safe": ("#3c3c3c", (0, (5, 2.5))),
}


def draw(outcomes: list[Outcome], path: Path) -> None:
    """Two panels along alpha: what went wrong, and what was gained."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.52})
    figure.subplots_adjust(left=0.065, right=0.875, top=0.775, bottom=0.255)
    alphas = 100 * np.array(ALPHAS)
    edges = alphas[0] - 0.35, alphas[-1] + 0.35
    left.fill_between(edges, edges, 99, color="#c8442f", alpha=0.07, lw=0)
    left.plot(edges, edges, color="#c8442f", lw=1)
    for axis, what in ((left, "missed"), (right, "avoided")):
        axis.set_ylim(0, 1.12 * max(getattr(each, what).mean() for each in outcomes))
    for axis, what in ((left, "missed"), (right, "avoided")):
        ends = {}
        for name, (color, dashes) in STYLES.items():
            mine = [each for each in outcomes if each.name == name]
            pairs = np.array([each.mean(getattr(each, what)) for each in mine])
            if mine[0].alpha is None:
                axis.plot(edges, [pairs[0, 0]] * 2, color=color, ls=dashes, lw=1.8)
            else:
                axis.errorbar(alphas, *pairs.T, color=color, lw=2.2, marker="o", ms=5, capsize=3)
            ends[name] = pairs[-1, 0]
        _label_ends(axis, ends, edges[1])
        axis.set_xlim(edges)
        axis.set_xticks(alphas)
        axis.set_xlabel("alpha: missed cancers tolerated in 100 patients", fontsize=10.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e8e8e8", lw=0.8)
        axis.set_axisbelow(True)
    left.text(
        0.03, 0.97, "more than tolerated", color="#c8442f", va="top", transform=left.transAxes
    )
    left.set_title("Cancers missed in 100 patients", loc="left", fontsize=12, pad=10)
    right.set_title("Needless biopsies avoided in 100 patients", loc="left", fontsize=12, pad=10)
    splits = len(outcomes[0].missed)
    about = (
        f"Wisconsin breast-cancer data: {TRAINED} patients to train on, {LOGGED} in the log, the "
        f"others held out; means of {splits} random splits, ± one standard error"
    )
    figure.text(0.065, 0.875, about, fontsize=10, color="#666666")
    figure.text(
        0.065, 0.925, "How far may the clinic follow the model?", fontsize=17, weight="bold"
    )
    _captions(figure, readings(outcomes), (left, right))
    figure.savefig(path, dpi=160)


def _label_ends(axis: Any, ends: dict[str, float], right: float) -> None:
    """Names beside the ends of the lines, moved apart where they would touch."""
    low, high = axis.get_ylim()
    gap, height = 0.055 * (high - low), -np.inf
    for name, end in sorted(ends.items(), key=lambda pair: pair[1]):
        height = max(end, height + gap)
        axis.text(right + 0.12, height, name, color=STYLES[name][0], fontsize=10.5, va="center")


def _captions(figure: Any, sentences: tuple[str, str], axes: tuple[Any, Any]) -> None:
    import textwrap

    for axis, sentence in zip(axes, sentences, strict=True):
        x = axis.get_position().x0
        figure.text(x, 0.135, textwrap.fill(sentence, 62), fontsize=10, color="#444444", va="top")
