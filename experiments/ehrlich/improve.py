"""One improvement of a policy: better prompts, and an epoch of DPO on what was done last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.ehrlich.model import Transformer
from experiments.ehrlich.policy import Prompted
from experiments.ehrlich.rows import Actions
from experiments.ehrlich.start import Start
from experiments.ehrlich.train import preferences, preferred


def improve(
    model: Transformer,
    start: Start,
    settings: Mapping[str, Any],
    past: Actions,
    last: Actions,
    rng: np.random.Generator,
) -> tuple[Prompted, float]:
    """The policy after one epoch of DPO on pairs of the `last` actions; and the loss.

    All actions may be trained on. The prompts are the best of the `past` ones and some of the safe
    policy's.
    """
    language = start.language
    past = np.unique(past, axis=0)
    best = past[np.argsort(-language.values(past), kind="stable")[: settings["best_seeds"]]]
    kept = rng.choice(len(start.seeds), settings["kept_seeds"], replace=False)
    seeds = np.concatenate([start.seeds[kept], best[:, :-1]])
    nearest = (last[:, None, :-1] != seeds).sum(axis=2).argmin(axis=1)
    better, worse = preferences(
        language.values(last),
        nearest,
        settings["triplets"],
        rng,
        infeasible=settings["infeasible_pairs"],
    )
    tuned, loss = preferred(
        model,
        language,
        seeds[nearest[better]],
        last[better],
        last[worse],
        rng,
        rate=settings["dpo_rate"],
        beta=settings["dpo_beta"],
        batch=settings["dpo_batch"],
    )
    return Prompted(tuned, seeds, language), loss
