"""The clinic of the demonstration: its patients, its policies, and one random split of them.

A safe policy refers nine of ten patients to biopsy. The optimized policy follows a model trained on
a hundred patients. Actions are "watch" and "refer"; the loss is 1 for a cancer that is watched. All
scores of training patients are by models that have not seen them.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tether
from tether.aiming import TemperedPolicy, aim, choose, fit_loss

TRAINING, LOGGED = 100, 330
"""Patients to train on and patients in the log; the other 139 are held out."""
FEATURES = 20
"""The model sees the mean and the error of ten measurements of cell nuclei, not the extremes."""
ALPHAS = (0.05, 0.06, 0.08, 0.10)
"""Missed cancers tolerated per patient."""
CHOICE_ALPHA = 0.08
"""The tolerated loss at which the clinic chooses; it then aims in the same way at every other."""
AIMS = {"aimed": (1.0, 1.0), "at half": (0.5, 1.0), "sharper": (1.0, 0.5), "both": (0.5, 0.5)}
"""The share of alpha at which each candidate is aimed, and the temperature before."""
WATCH, REFER = "watch", "refer"
NAIVE, CHOSEN = "naive threshold", "tether, chosen"


def load_patients():
    """The features of every patient, and whether the tumor is malignant."""
    data = load_breast_cancer()
    return data.data[:, :FEATURES], data.target == 0


def new_model():
    """A logistic regression, not fitted yet."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cholesky"))


def make_safe_policy():
    """The policy that refers nine of ten, whatever the features."""
    return tether.Categorical.from_probabilities([0.1, 0.9], actions=[WATCH, REFER])


def make_optimized_policy(score, safe):
    """The policy of a model's log-odds of cancer, blended with a little of the safe policy."""

    def logits(contexts):
        refer = (score(contexts) - 3.0) / 1.5
        return np.column_stack([np.zeros(len(contexts)), refer])

    model = tether.Categorical.from_logits(logits, actions=[WATCH, REFER])
    return tether.Mixture.blend(model, safe, safe_share=0.02)


class Clinic:
    """One random split: a trained model, a log of the safe policy, and held-out patients.

    The context of a patient is the log-odds of cancer that the model predicts.
    """

    def __init__(self, features, malignant, rng):
        order = rng.permutation(len(features))
        self.training, self.logged, self.held_out = np.split(order, [TRAINING, TRAINING + LOGGED])
        self.rng, self.malignant = rng, malignant
        seen = features[self.training], malignant[self.training]
        self.log_odds = new_model().fit(*seen).decision_function(features)
        self.unseen = cross_val_predict(new_model(), *seen, method="decision_function")
        self.safe = make_safe_policy()
        self.optimized = make_optimized_policy(lambda log_odds: log_odds, self.safe)
        self.actions = self.safe.sample(self.log_odds[self.logged], rng)
        self.missed = (self.actions == WATCH) & malignant[self.logged]

    def outcomes(self, actions, patients):
        """Missed cancers, and avoided needless biopsies."""
        watched, malignant = actions == WATCH, self.malignant[patients]
        return 1.0 * (watched & malignant), 1.0 * (watched & ~malignant)

    def deployed(self, actions):
        """Missed and avoided per hundred held-out patients."""
        return [100 * each.mean() for each in self.outcomes(actions, self.held_out)]

    def naive_threshold(self, alpha):
        """The largest threshold that missed at most this share of the training patients."""
        order = np.argsort(self.log_odds[self.training])
        missed = np.cumsum(self.malignant[self.training][order]) / len(order)
        threshold = self.log_odds[self.training][order][np.searchsorted(missed, alpha + 1e-9) - 1]
        return np.where(self.log_odds[self.held_out] <= threshold, WATCH, REFER)

    def tethered(self, optimized, alpha, family):
        """Actions of what may be served, calibrated on the log alone; and the promise."""
        contexts = self.log_odds[self.logged]
        log = tether.make_log(self.safe, optimized, contexts, self.actions, self.missed)
        found = tether.calibrate(log, alpha=alpha, family=family)
        policy = tether.Tethered(self.safe, optimized, found) if found.useful else self.safe
        return policy.sample(self.log_odds[self.held_out], self.rng), 100 * found.promise

    def candidates(self, loss_model, alpha):
        """The optimized policy as it is, and aimed in each of the ways."""
        made = {"plain": self.optimized}
        for name, (share, temperature) in AIMS.items():
            sharper = TemperedPolicy(self.optimized, temperature)
            made[name] = aim(sharper, loss_model, self.unseen, share * alpha).policy
        return made

    def fit_losses(self):
        """A model of the loss: training patients had a biopsy, so both outcomes are known."""
        actions = np.repeat([WATCH, REFER], TRAINING)
        lost, _ = self.outcomes(actions, np.tile(self.training, 2))
        return fit_loss(np.tile(self.unseen, 2), actions, lost, rng=self.rng)

    def choice(self, loss_model):
        """The candidate that avoids most biopsies in simulated calibrations on training patients.

        The guarantee does not depend on it: calibration uses the patients of the log alone.
        """
        patients = np.repeat(np.arange(TRAINING), 4)
        actions = self.safe.sample(self.unseen[patients], self.rng)
        losses, rewards = self.outcomes(actions, self.training[patients])
        rows = {"contexts": self.unseen[patients], "actions": actions, "losses": losses}
        options = {"alpha": CHOICE_ALPHA, "rng": self.rng, "calibration_rows": LOGGED}
        made = self.candidates(loss_model, CHOICE_ALPHA)
        return choose(made, safe=self.safe, **rows, rewards=rewards, **options).name


def deployments(seed: int, split: int) -> Iterator[tuple]:
    """Every policy of a split: name, alpha, missed, avoided, and promise (NaN without one)."""
    clinic = Clinic(*load_patients(), np.random.default_rng([seed, split]))
    for name, policy in (("safe", clinic.safe), ("optimized", clinic.optimized)):
        actions = policy.sample(clinic.log_odds[clinic.held_out], clinic.rng)
        yield name, None, *clinic.deployed(actions), np.nan
    loss_model = clinic.fit_losses()
    chosen = clinic.choice(loss_model)
    for alpha in ALPHAS:
        yield NAIVE, alpha, *clinic.deployed(clinic.naive_threshold(alpha)), np.nan
        candidates = clinic.candidates(loss_model, alpha)
        for name, candidate, family in (
            *(("tether, mix", "plain", "mix"), ("tether, clip", "plain", "clip")),
            *(("tether, aimed", "aimed", "clip"), (CHOSEN, chosen, "clip")),
        ):
            actions, promise = clinic.tethered(candidates[candidate], alpha, family)
            yield name, alpha, *clinic.deployed(actions), promise
