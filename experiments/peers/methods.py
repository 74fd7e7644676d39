"""Each task's methods: what they promise, and how they choose from a sample."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tether
from experiments.peers import formulas
from experiments.peers.worlds import Binary, Coins, Gaussians, Labelled, as_claims

EXPECTATION, PROBABILITY, NOTHING = "mean risk ≤ alpha", "above ≤ delta", "nothing"


@dataclass(frozen=True)
class Method:
    """A name, its promise in this world, and a choice from a sample."""

    name: str
    promise: str
    choose: Callable[[Any], float]
    family: str = "clip"

    @property
    def slow(self) -> bool:
        """Whether it gets fewer repeats."""
        return self.name.startswith("MAPIE")


@dataclass(frozen=True)
class Problem:
    """A world, its alpha, and how a choice fares there: (risk, power)."""

    name: str
    alpha: float
    power: str
    draw: Callable[[np.random.Generator, int], Any]
    items: int
    fare: Callable[[float, Method], tuple[float, float]]
    methods: list[Method]


def mapie_installed() -> bool:
    """Whether MAPIE can be compared with."""
    try:
        import mapie.risk_control  # noqa: F401
    except ImportError:
        return False
    return True


def _mapie_labels(sample: Any, grid: np.ndarray, risk: str, **more: Any) -> float:
    from mapie.risk_control import MultiLabelClassificationController

    scores, labels = sample
    controller = MultiLabelClassificationController(
        lambda rows: scores[rows[:, 0]], risk=risk, predict_params=grid, **more
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where no threshold is valid
        controller.calibrate(np.arange(len(scores))[:, None], labels.astype(int))
    return _first(controller.best_predict_param, -np.inf if risk == "recall" else np.inf)


def _mapie_binary(sample: Any, grid: np.ndarray, alpha: float, delta: float) -> float:
    from mapie.risk_control import BinaryClassificationController

    scores, labels = sample
    controller = BinaryClassificationController(
        lambda rows: np.stack([1 - scores[rows[:, 0]], scores[rows[:, 0]]], axis=1),
        risk="precision",
        target_level=1 - alpha,
        confidence_level=1 - delta,
        list_predict_params=grid,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(np.arange(len(scores))[:, None], labels.astype(int))
    return _first(controller.best_predict_param, np.inf)


def _first(found: Any, nothing: float) -> float:
    values = np.ravel(np.asarray([] if found is None else found, dtype=float))
    return float(values[0]) if len(values) and np.isfinite(values[0]) else nothing


def _threshold(found: tether.Selection) -> float:
    """The threshold, or the one that keeps least (or most) where none passes."""
    if found.exists:
        return found.threshold
    return np.inf if found.safer == "larger" else -np.inf


def keep_true(world: Labelled, settings: Any) -> Problem:
    """Drop false labels while at most a share alpha of the true ones is lost: monotone."""
    alpha, grid = settings["miss_alpha"], np.linspace(0, 1, settings["thresholds"], endpoint=False)
    grid_losses = lambda s: formulas.losses_on(*s, grid, "miss")  # noqa: E731
    methods = [
        Method(
            "MAPIE, CRC",
            EXPECTATION,
            lambda s: _mapie_labels(s, grid, "recall", method="crc", target_level=1 - alpha),
        ),
        Method(
            "CRC formula",
            EXPECTATION,
            lambda s: formulas.crc(grid_losses(s), grid, alpha, safest="low"),
        ),
        Method(
            "tether.crc",
            EXPECTATION,
            lambda s: _threshold(tether.crc(as_claims(*s), alpha=alpha, loss="miss")),
        ),
        Method(
            "tether.gcrc",
            EXPECTATION,
            lambda s: _threshold(tether.gcrc(as_claims(*s), alpha=alpha, loss="miss")),
        ),
    ]

    def fare(threshold: float, method: Method) -> tuple[float, float]:
        return world.missed(threshold), world.dropped(threshold)

    return Problem(
        "keep true labels",
        alpha,
        "false labels dropped",
        world.draw,
        settings["items"],
        fare,
        methods,
    )


def drop_false(world: Labelled, settings: Any) -> Problem:
    """Keep labels while at most a share alpha of those kept is false: not monotone."""
    alpha, delta = settings["false_alpha"], settings["delta"]
    grid = np.linspace(0, 1, settings["thresholds"], endpoint=False)
    grid_losses = lambda s: formulas.losses_on(*s, grid, "fdr")  # noqa: E731

    def literal(procedure: str) -> Callable[[Any], float]:
        return lambda s: formulas.ltt(grid_losses(s), grid, alpha, delta, procedure)

    methods = [
        Method(
            "MAPIE, LTT",
            PROBABILITY,
            lambda s: _mapie_labels(
                s, grid, "precision", target_level=1 - alpha, confidence_level=1 - delta
            ),
        ),
        Method("LTT formula, Bonferroni", PROBABILITY, literal("bonferroni")),
        Method("LTT formula, fixed sequence", PROBABILITY, literal("fixed_sequence")),
        Method(
            "tether.ltt",
            PROBABILITY,
            lambda s: _threshold(tether.ltt(as_claims(*s), alpha=alpha, confidence=1 - delta)),
        ),
        Method("CRC formula", NOTHING, lambda s: formulas.crc(grid_losses(s), grid, alpha)),
        Method(
            "tether.monotonized_crc",
            EXPECTATION,
            lambda s: _threshold(tether.monotonized_crc(as_claims(*s), alpha=alpha)),
        ),
        Method(
            "tether.gcrc",
            EXPECTATION,
            lambda s: _threshold(tether.gcrc(as_claims(*s), alpha=alpha)),
        ),
    ]

    def fare(threshold: float, method: Method) -> tuple[float, float]:
        return world.false_share(threshold), 1 - world.missed(threshold)

    return Problem(
        "drop false labels", alpha, "true labels kept", world.draw, settings["items"], fare, methods
    )


def toss(settings: Any) -> Problem:
    """Be bold while the risk stays within alpha, with losses that go up and down by chance."""
    alpha, delta = settings["coins_alpha"], settings["delta"]
    world = Coins(alpha, 100)
    grid = world.grid
    methods = [
        Method("CRC formula", NOTHING, lambda s: formulas.crc(s, grid, alpha)),
        Method(
            "LTT formula, fixed sequence",
            PROBABILITY,
            lambda s: formulas.ltt(s, grid, alpha, delta, "fixed_sequence"),
        ),
        Method(
            "tether.ltt",
            PROBABILITY,
            lambda s: _threshold(tether.ltt(s, grid, alpha=alpha, confidence=1 - delta)),
        ),
        Method(
            "tether.monotonized_crc",
            EXPECTATION,
            lambda s: _threshold(tether.monotonized_crc(s, grid, alpha=alpha)),
        ),
        Method(
            "tether.gcrc",
            EXPECTATION,
            lambda s: _threshold(tether.gcrc(s, grid, alpha=alpha)),
        ),
    ]
    return Problem(
        "losses by coin",
        alpha,
        "away from the safest threshold",
        world.draw,
        settings["coins_items"],
        lambda threshold, method: world.risk_and_power(threshold),
        methods,
    )


def classify(settings: Any) -> Problem:
    """Select positives while at most a share alpha of the selected is negative."""
    world, alpha, delta = Binary(), settings["binary_alpha"], settings["delta"]
    grid = np.linspace(0, 1, settings["thresholds"], endpoint=False)
    labels = lambda s: tether.ScoredLabels(*s)  # noqa: E731
    methods = [
        Method("MAPIE, LTT", PROBABILITY, lambda s: _mapie_binary(s, grid, alpha, delta)),
        Method(
            "tether.ltt",
            PROBABILITY,
            lambda s: _threshold(
                tether.ltt(
                    labels(s), grid, alpha=alpha, confidence=1 - delta, loss="false_discovery"
                )
            ),
        ),
    ]
    return Problem(
        "binary precision",
        alpha,
        "positives selected",
        world.draw,
        settings["binary_items"],
        lambda threshold, method: world.risk_and_power(threshold),
        methods,
    )


def control(settings: Any, rows: int) -> Problem:
    """Pull a policy away from the safe one while its expected loss stays within alpha."""
    world, alpha = Gaussians(), settings["policy_alpha"]

    def weighted(choose: Callable[..., float], *more: Any, **named: Any) -> Callable[[Any], float]:
        def chosen(sample: Any) -> float:
            log, proposals = sample
            ratios = (each.log_optimized - each.log_safe for each in (log, proposals))
            (losses,) = log.loss.values()
            return choose(losses, *ratios, alpha, *more, **named)

        return chosen

    def tethered(family: str) -> Callable[[Any], float]:
        return lambda s: tether.calibrate(*s, alpha=alpha, family=family).log_beta

    methods = [
        Method("weighted mean looks safe", NOTHING, weighted(formulas.looks_safe)),
        Method(
            "self-normalized mean looks safe",
            NOTHING,
            weighted(formulas.looks_safe, normalized=True),
        ),
        Method(
            "weighted, Bernstein bound",
            PROBABILITY,
            weighted(formulas.high_confidence, settings["delta"]),
        ),
        Method("tether, clip", EXPECTATION, tethered("clip")),
        Method("tether, mix", EXPECTATION, tethered("mix"), family="mix"),
    ]
    return Problem(
        f"policy, {rows:,} rows",
        alpha,
        "of the way to the optimized reward",
        world.draw,
        rows,
        lambda log_beta, method: world.risk_and_power(log_beta, method.family),
        methods,
    )
