"""Writes `functions.json` from the reference: `python -m experiments.ehrlich.export`.

Needs `pip install --no-deps pytorch-holo` and botorch; nothing else in the experiment does.
"""

from __future__ import annotations

import json
from typing import Any

from experiments.ehrlich.function import INSTANCES

SHAPES = {
    "Ehr(32,32)-4-4-4": {"num_states": 32, "dim": 32, "num_motifs": 4, "motif_length": 4},
    "Ehr(16,16)-2-4-4": {"num_states": 16, "dim": 16, "num_motifs": 2, "motif_length": 4},
}
SEED = 0


def reference(name: str, seed: int = SEED) -> Any:
    """The function as the package `holo` makes it."""
    from holo.test_functions.closed_form import Ehrlich

    return Ehrlich(**SHAPES[name], quantization=4, random_seed=seed)


def plain(function: Any) -> dict[str, Any]:
    """What defines a function of `holo`, as plain values."""
    return {
        "length": function.dim,
        "quantization": function._quantization,
        "motifs": [motif.tolist() for motif in function.motifs],
        "spacings": [spacing.tolist() for spacing in function.spacings],
        "start": function.initial_solution().tolist(),
        "allowed": [
            "".join("1" if entry > 0 else "0" for entry in row)
            for row in function.transition_matrix.tolist()
        ],
    }


if __name__ == "__main__":
    written = {name: plain(reference(name)) for name in SHAPES}
    INSTANCES.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(f"{INSTANCES.name}: {', '.join(written)}")
