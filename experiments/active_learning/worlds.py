"""The worlds of the experiment: records, which of them are infeasible, and the safe policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import data
from tether import Pool

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """A pool to label from, a test set, and the safe policy: towards the first component."""

    features: Floats
    labels: Floats
    infeasible: NDArray[np.bool_]
    test_features: Floats
    test_labels: Floats
    safe: Pool

    @cached_property
    def scaled(self) -> Floats:
        """The features of the pool, each with mean 0 and deviation 1."""
        centered = self.features - self.features.mean(axis=0)
        return np.asarray(centered / np.maximum(centered.std(axis=0), 1e-12))

    def observe(
        self, actions: NDArray[Any], settings: Mapping[str, Any], rng: np.random.Generator
    ) -> Floats:
        """Noisy labels, noisier where a record is infeasible."""
        scale = np.where(self.infeasible[actions], settings["infeasible_noise"], 1.0)
        return self.labels[actions] + settings["label_noise"] * scale * rng.normal(
            size=len(actions)
        )


@cache
def records(name: str, *, stand_in: bool = False) -> tuple[Floats, Floats, Floats]:
    """Features, labels, and the first principal component scaled to [0, 1], of one data set.

    The component's sign is such that its largest loading is positive.
    """
    frame = data.load(name, stand_in=stand_in)
    if name == "airfoil":
        for column in ("frequency_hz", "suction_side_displacement_thickness_m"):
            frame[column] = np.log(frame[column])
    if name == "meps":
        frame = frame[frame["year"] == data.YEAR]
        frame = frame.drop(columns=["year", "person_index"], errors="ignore")
    label = frame.pop(frame.columns[-1])
    if name == "meps":
        label = np.log1p(label)
    features = frame.to_numpy(dtype=float)
    centered = features - features.mean(axis=0)
    loadings = np.linalg.svd(centered, full_matrices=False)[2][0]
    component = centered @ (loadings * np.sign(loadings[np.abs(loadings).argmax()]))
    component = (component - component.min()) / (component.max() - component.min())
    return features, label.to_numpy(dtype=float), component


def infeasibility(component: Floats, alpha: float) -> Floats:
    """The chance that each record is infeasible: logistic in its rank, located by alpha."""
    rank = component.argsort(kind="stable").argsort() / len(component)
    return np.asarray(1 / (1 + np.exp((rank - min(2.5 * alpha, 0.98)) / 0.1)))


def build(
    name: str, alpha: float, gamma: float, rng: np.random.Generator, *, stand_in: bool = False
) -> World:
    """A world of its own for each generator: other infeasible records and another test set."""
    features, labels, component = records(name, stand_in=stand_in)
    infeasible = rng.random(len(labels)) < infeasibility(component, alpha)
    order = rng.permutation(len(labels))
    test, pool = np.split(order, [len(labels) // 5])
    return World(
        features[pool],
        labels[pool],
        infeasible[pool],
        features[test],
        labels[test],
        Pool(gamma * component[pool]),
    )
