"""Ehrlich functions: how well a sequence holds spaced motifs, and whether it is feasible at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sequences = NDArray[np.int64]
INSTANCES = Path(__file__).with_name("functions.json")


@dataclass(frozen=True)
class Ehrlich:
    """One function: forbidden transitions, motifs, and where a motif's elements have to stand.

    `offsets` counts from a motif's first element. A sequence with a forbidden transition is worth
    −inf; any other the product over motifs of the share of elements found, in steps of 1/levels.
    """

    name: str
    length: int
    allowed: NDArray[np.bool_]
    motifs: NDArray[np.int64]
    offsets: NDArray[np.int64]
    quantization: int
    start: Sequences
    """One feasible sequence, where optimization begins."""

    @property
    def states(self) -> int:
        """How many tokens a sequence is made of."""
        return len(self.allowed)

    @classmethod
    def from_dict(cls, name: str, plain: dict[str, Any]) -> Ehrlich:
        """One entry of `functions.json`."""
        return cls(
            name=name,
            length=plain["length"],
            allowed=np.array([[mark == "1" for mark in row] for row in plain["allowed"]]),
            motifs=np.array(plain["motifs"]),
            offsets=np.array([np.cumsum([0, *gaps]) for gaps in plain["spacings"]]),
            quantization=plain["quantization"],
            start=np.array(plain["start"]),
        )

    @classmethod
    def load(cls, name: str) -> Ehrlich:
        """A function that `python -m experiments.ehrlich.export` wrote."""
        known = json.loads(INSTANCES.read_text(encoding="utf-8"))
        if name not in known:
            raise ValueError(f"function must be one of {sorted(known)}, got {name!r}")
        return cls.from_dict(name, known[name])

    def feasible(self, sequences: Sequences) -> NDArray[np.bool_]:
        """Whether every transition of each sequence is allowed."""
        return np.asarray(self.allowed[sequences[:, :-1], sequences[:, 1:]].all(axis=1))

    def presence(self, sequences: Sequences) -> NDArray[np.float64]:
        """The share of each motif that each sequence holds at the best place: rows × motifs."""
        size = self.motifs.shape[1]
        step = -(-size // self.quantization)
        best = []
        for motif, offsets in zip(self.motifs, self.offsets, strict=True):
            places = self.length - int(offsets[-1])
            found = np.zeros((len(sequences), places), dtype=np.int64)
            for token, offset in zip(motif, offsets, strict=True):
                found += sequences[:, offset : offset + places] == token
            best.append(found.max(axis=1) // step / (size / step))
        return np.stack(best, axis=1)

    def __call__(self, sequences: Sequences) -> NDArray[np.float64]:
        """The objective of each sequence, in [0, 1], and −inf where it is infeasible."""
        value = self.presence(sequences).prod(axis=1)
        return np.where(self.feasible(sequences), value, -np.inf)
