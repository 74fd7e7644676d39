"""Aiming "always cheap" by a loss model of the prompts, and choosing on training prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.preprocessing import OneHotEncoder

import tether
from experiments import data
from tether.aiming import AimedPolicy, TemperedPolicy

ACTIONS = ["cheap", "expensive"]


@cache
def load_subjects() -> Any:
    """The subject of each distinct prompt, one column a subject; GSM8K is one of them."""
    table = pd.read_parquet(data.path("routellm_two_model/routellm_two_model.parquet"))
    subjects = table.drop_duplicates("prompt")["subject"].to_numpy(dtype=str)
    return OneHotEncoder().fit_transform(subjects[:, None]).tocsr()


@dataclass(frozen=True)
class PromptLoss:
    """How likely the cheap model is to lose, on every prompt; the expensive one never does."""

    chances: np.ndarray

    def __call__(self, contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The predicted loss of each action at the prompt of this number."""
        return self.chances[contexts] * (actions == ACTIONS[0])


@dataclass(frozen=True)
class LossModels:
    """A loss model for all prompts, and what it says of training prompts that it has not seen."""

    everywhere: PromptLoss
    held_out: PromptLoss
    """Its contexts are places among the training prompts."""


def fit_losses(
    number: np.ndarray, lost: np.ndarray, words: Any, subjects: Any | None, strength: float
) -> LossModels:
    """Logistic regression of whether the cheap model loses, on TF-IDF and perhaps the subject.

    A model predicts its own training prompts too well, and a multiplier that is solved there is
    wrong elsewhere. So it is solved with predictions of five models, each on prompts that it has
    not seen.
    """
    columns = TfidfTransformer(sublinear_tf=True).fit(words[number]).transform(words)
    if subjects is not None:
        columns = sparse.hstack([columns, subjects]).tocsr()
    model = LogisticRegression(C=strength, solver="liblinear")
    folds = KFold(5, shuffle=True, random_state=0)
    unseen = cross_val_predict(model, columns[number], lost, cv=folds, method="predict_proba")
    chances = model.fit(columns[number], lost).predict_proba(columns)[:, 1]
    return LossModels(PromptLoss(chances), PromptLoss(unseen[:, 1]))


def aim_always_cheap(models: LossModels, alpha: float, task: Mapping[str, Any]) -> tether.Policy:
    """The cheap model, but for prompts on which it is predicted to lose.

    "Always cheap" is tilted by exp(−λ·predicted loss), with λ such that the tilted policy turns to
    the expensive model at the threshold up to which the prompts are predicted to cost
    `aim_multiple` times alpha. A low temperature makes this nearly sharp, so that the beta of clip
    lowers the threshold as far as the log asks for. (`tether.aim` solves for a λ of at most 50
    nats, which is too little for this.)
    """
    cheap = tether.Categorical.from_probabilities([0.95, 0.05], actions=ACTIONS)
    chances = np.sort(models.held_out.chances)
    spent = np.cumsum(chances) / len(chances)
    at = np.searchsorted(spent, task["aim_multiple"] * alpha)
    multiplier = np.log(0.95 / 0.05) / chances[min(at, len(chances) - 1)]
    aimed = AimedPolicy(cheap, {"": models.everywhere}, {"": multiplier})
    return TemperedPolicy(aimed, task["aim_temperature"])


def candidates(
    lost: np.ndarray, words: Any, subjects: Any, alpha: float, learn: Any, task: Mapping[str, Any]
) -> Any:
    """A function for `tether.choose`: routers and aimed policies, learned from some prompts.

    `lost` says for each distinct prompt whether the cheap model loses on it. Only those of the
    prompts that it is given are looked at.
    """

    def build(rows: Any, rng: np.random.Generator) -> dict[str, tether.Policy]:
        seen = np.unique(rows.contexts)
        models = fit_losses(seen, lost[seen], words, subjects, task["strength"])
        return {
            "clip": learn(seen, lost[seen], None),
            "clip, subject": learn(seen, lost[seen], subjects),
            "aimed": aim_always_cheap(models, alpha, task),
        }

    return build
