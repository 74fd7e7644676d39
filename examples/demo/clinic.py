"""The clinic of the demonstration: its patients, its policies, and one random split of them.

A safe policy refers nine of ten patients to biopsy. The optimized policy follows a model trained on
a hundred patients. Actions are "watch" and "refer"; the loss is 1 for a cancer that is watched.
"""

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
"""The tolerated loss at which the clinic chooses how to aim; it aims so at every other."""
AIMS = {"aimed": (1.0, 1.0), "at half": (0.5, 1.0), "sharper": (1.0, 0.5), "both": (0.5, 0.5)}
"""The share of alpha at which each candidate is aimed, and the temperature before."""
WATCH, REFER = "watch", "refer"
NAIVE, CLIP, AIMED = "naive threshold", "tether", "tether, aimed"


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

    The context of a patient is the log-odds of cancer that the model predicts; `unseen` has those
    of training patients by models that have not seen them.
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

    def outcomes(self, actions, patients):
        """Missed cancers, and avoided needless biopsies."""
        watched, malignant = actions == WATCH, self.malignant[patients]
        return 1.0 * (watched & malignant), 1.0 * (watched & ~malignant)

    def deployed(self, policy):
        """Missed and avoided per hundred held-out patients."""
        actions = policy.sample(self.log_odds[self.held_out], self.rng)
        return [100 * each.mean() for each in self.outcomes(actions, self.held_out)]

    def naive(self, alpha):
        """The largest threshold that missed at most this share of the training patients."""
        order = np.argsort(self.log_odds[self.training])
        missed = np.cumsum(self.malignant[self.training][order]) / len(order)
        threshold = self.log_odds[self.training][order][np.searchsorted(missed, alpha + 1e-9) - 1]
        actions = np.where(self.log_odds[self.held_out] <= threshold, WATCH, REFER)
        return [100 * each.mean() for each in self.outcomes(actions, self.held_out)]

    def tethered(self, optimized, alpha):
        """What may be served, calibrated on the log alone."""
        contexts, (losses, _) = self.log_odds[self.logged], self.outcomes(self.actions, self.logged)
        log = tether.make_log(self.safe, optimized, contexts, self.actions, losses)
        found = tether.calibrate(log, alpha=alpha)
        return tether.Tethered(self.safe, optimized, found) if found.useful else self.safe

    def aimed(self, how, loss_model, alpha):
        """The optimized policy, tilted away from predicted losses."""
        share, temperature = AIMS[how]
        sharper = TemperedPolicy(self.optimized, temperature)
        return aim(sharper, loss_model, self.unseen, share * alpha).policy

    def fit_losses(self):
        """A model of the loss: training patients had a biopsy, so both outcomes are known."""
        actions = np.repeat([WATCH, REFER], TRAINING)
        lost, _ = self.outcomes(actions, np.tile(self.training, 2))
        return fit_loss(np.tile(self.unseen, 2), actions, lost, rng=self.rng)

    def choice(self, loss_model):
        """How to aim: what avoids most biopsies in simulated calibrations on training patients.

        The guarantee does not depend on it: calibration uses the patients of the log alone.
        """
        patients = np.repeat(np.arange(TRAINING), 4)
        actions = self.safe.sample(self.unseen[patients], self.rng)
        losses, rewards = self.outcomes(actions, self.training[patients])
        rows = {"contexts": self.unseen[patients], "actions": actions, "losses": losses}
        options = {"alpha": CHOICE_ALPHA, "rng": self.rng, "calibration_rows": LOGGED}
        made = {how: self.aimed(how, loss_model, CHOICE_ALPHA) for how in AIMS}
        return choose(made, safe=self.safe, **rows, rewards=rewards, **options).name


def deployments(split):
    """Every policy of a split: name, alpha, and what it misses and avoids."""
    clinic = Clinic(*load_patients(), np.random.default_rng([0, split]))
    found = [("safe", None, clinic.deployed(clinic.safe))]
    found.append(("optimized", None, clinic.deployed(clinic.optimized)))
    loss_model = clinic.fit_losses()
    how = clinic.choice(loss_model)
    for alpha in ALPHAS:
        aimed = clinic.aimed(how, loss_model, alpha)
        found.append((NAIVE, alpha, clinic.naive(alpha)))
        found.append((CLIP, alpha, clinic.deployed(clinic.tethered(clinic.optimized, alpha))))
        found.append((AIMED, alpha, clinic.deployed(clinic.tethered(aimed, alpha))))
    return found
