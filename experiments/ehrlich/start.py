"""Before the rounds: the genetic algorithm's data, and the safe policy learned from it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.ehrlich import genetic
from experiments.ehrlich.function import Ehrlich, Sequences
from experiments.ehrlich.model import Shape, Transformer, make_model
from experiments.ehrlich.policy import Language, Prompted, Stocked
from experiments.ehrlich.train import supervised


def find_device(name: str) -> str:
    """The device by its name; `auto` is the GPU where there is one."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Start:
    """The safe policy of one random seed, and what it took to get it."""

    language: Language
    model: Transformer
    seeds: Sequences
    stock: tuple[NDArray[np.int64], NDArray[np.float64]]
    """Draws of the safe policy, and their log-probabilities under it."""
    report: dict[str, float]

    @property
    def safe(self) -> Stocked:
        """The safe policy: the model with its seeds as prompts, and a whole stock."""
        return Stocked(Prompted(self.model, self.seeds, self.language), *self.stock)


def prepare(settings: Mapping[str, Any], seed: int) -> Start:
    """Evolve, pair up, train, and look at what came out."""
    began = time.time()
    rng = np.random.default_rng([seed, 1])
    function = Ehrlich.load(settings["function"])
    language = Language(function)
    history = genetic.evolve(
        function,
        rng,
        rounds=settings["genetic_rounds"],
        particles=settings["particles"],
        mutation=settings["mutation"],
        recombination=settings["recombination"],
        survival=settings["survival"],
    )
    distance = int(settings["edit_distance"] * function.length)
    before, after = genetic.improving_pairs(history, settings["pairs"], distance, rng)
    seeds = genetic.diverse(history, settings["safe_seeds"], settings["top"])
    device = find_device(settings["device"])
    sizes = {key: settings[key] for key in ("width", "layers", "heads")}
    model = make_model(Shape(language.vocabulary, **sizes), seed, device)
    losses = supervised(
        model,
        language,
        before,
        after,
        rng,
        rate=settings["sft_rate"],
        epochs=settings["sft_epochs"],
        batch=settings["sft_batch"],
    )
    safe = Prompted(model.eval(), seeds, language)
    actions = safe.sample(settings["stock"], rng)
    start = Start(language, model, seeds, (actions, safe.log_prob(None, actions)), {})
    values = function(actions)
    pool = history.feasible()
    start.report.update(
        seed=seed,
        evolved=len(history.values),
        evolved_feasible=len(pool.values),
        evolved_best=float(pool.values[0]),
        pairs=len(before),
        pair_distance=float((before != after).sum(axis=1).mean()),
        first_loss=losses[0],
        last_loss=losses[-1],
        seeds_mean=float(function(seeds).mean()),
        safe_infeasible=float(np.isneginf(values).mean()),
        safe_mean=float(np.maximum(values, 0).mean()),
        safe_best=float(values.max()),
        distinct=len(np.unique(actions, axis=0)) / len(actions),
        seconds=time.time() - began,
    )
    return start
