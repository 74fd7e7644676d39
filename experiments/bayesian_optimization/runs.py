"""One run after another: policies, calibration and evaluations of each arm.

These stand apart from `__main__`, which worker processes cannot import.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tether
from experiments.bayesian_optimization import townsend
from tether import bo

HIDDEN = ", hidden"
"""The end of the name of an arm that sees no objective where a point is infeasible."""


def grid(settings: Mapping[str, Any]) -> np.ndarray:
    """The candidates: a square grid over the search space."""
    line = np.linspace(-1, 1, settings["candidates_a_side"]) * settings["half_width"]
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)


def safe_policy(settings: Mapping[str, Any], candidates: np.ndarray) -> bo.AcquisitionPool:
    """The Gaussian of the paper, over the candidates: feasible for the most part, and far off."""
    gaussian = tether.Gaussian(settings["safe_mean"], settings["safe_scale"])
    return bo.AcquisitionPool(partial(gaussian.log_prob, None), candidates)


def learn(
    settings: Mapping[str, Any],
    candidates: np.ndarray,
    actions: np.ndarray,
    temperature: float,
    rng: np.random.Generator,
    *,
    hidden: bool,
) -> bo.AcquisitionPool:
    """The optimized policy: log expected improvement plus log-probability of being feasible.

    The value of an infeasible point is seen, unless it is `hidden`; improvement is over the best
    feasible one. `actions` are all that it learns from.
    """
    import torch
    from botorch.acquisition.logei import qLogExpectedImprovement
    from botorch.exceptions import OptimizationWarning
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from botorch.sampling import SobolQMCNormalSampler
    from gpytorch.mlls import ExactMarginalLogLikelihood

    points, inside = candidates[actions], townsend.feasible(candidates[actions])
    width = settings["half_width"]
    seen = inside if hidden else np.ones(len(points), dtype=bool)
    values = torch.tensor(townsend.objective(points[seen]))[:, None]
    model = SingleTaskGP(
        torch.tensor(points[seen]),
        values,
        input_transform=Normalize(2, bounds=torch.tensor([[-width] * 2, [width] * 2]).double()),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)  # it stops at so many iterations
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(model.likelihood, model),
            optimizer_kwargs={"options": {"maxiter": settings["fit_iterations"]}},
            max_attempts=1,
            warning_handler=lambda each: True,
        )
    sampler = SobolQMCNormalSampler(
        torch.Size([settings["acquisition_samples"]]), seed=int(rng.integers(2**31))
    )
    improvement = qLogExpectedImprovement(model, values[inside[seen]].max(), sampler=sampler)
    bumps = Nystroem(gamma=0.5, n_components=min(60, len(points)), random_state=0)
    classifier = make_pipeline(bumps, LogisticRegression(C=100.0, max_iter=1000))
    if not inside.all():
        classifier.fit(points, inside)

    def acquisition(points: np.ndarray) -> np.ndarray:
        if inside.all():  # nothing has been learned of what is not feasible
            return bo.acquisition_values(improvement, points)
        log_feasible = classifier.predict_log_proba(points)[:, 1]
        return bo.acquisition_values(improvement, points) + log_feasible

    return bo.AcquisitionPool(acquisition, candidates, temperature)


def run(
    settings: Mapping[str, Any], arm: str, temperature: float, alpha: float, seed: int
) -> Iterator[dict]:
    """One run of one arm, one row a round; round 0 is what the safe policy evaluated before."""
    rng = np.random.default_rng([settings["seed"], seed])
    candidates = grid(settings)
    value, inside = townsend.objective(candidates), townsend.feasible(candidates)
    safe = safe_policy(settings, candidates)
    actions = safe.sample(settings["initial"], rng)
    learned, held = actions[::2], [actions[1::2]]  # to learn from, to calibrate on
    deployed: list[Any] = [safe]
    fixed = {"safe": safe, "uniform": tether.Pool.uniform(len(candidates))}
    policy, beta, hidden = safe, np.nan, arm.endswith(HIDDEN)
    for number in range(settings["rounds"] + 1):
        if number:
            policy = fixed.get(arm)
            if policy is None:
                # An arm that is not calibrated learns from everything.
                tethered = arm.startswith("tethered")
                seen = learned if tethered else actions
                policy = learn(settings, candidates, seen, temperature, rng, hidden=hidden)
                if tethered:
                    found = calibrate(settings, alpha, safe, policy, deployed, held, ~inside, rng)
                    policy, beta = tether.Tethered(safe, policy, found), found.beta
            drawn = policy.sample(settings["batch"], rng)
            learned = np.concatenate([learned, drawn[::2]])
            deployed.append(policy)
            held.append(drawn[1::2])
        if number:
            actions = np.concatenate([actions, drawn])
        good = actions[inside[actions]]
        yield {
            "arm": arm,
            "temperature": temperature,
            "alpha": alpha,
            "seed": seed,
            "round": number,
            "risk": float(np.exp(policy.log_prob_all(1)[0]) @ ~inside),
            "violations": float((~inside[actions[-settings["batch"] :]]).mean()),
            "best": float(value[good].max()) if len(good) else np.nan,
            "beta": beta,
            "points": " ".join(map(str, actions[-settings["batch"] :])) if seed == 0 else "",
        }


def calibrate(
    settings: Mapping[str, Any],
    alpha: float,
    safe: Any,
    optimized: Any,
    deployed: Sequence[Any],
    held: Sequence[np.ndarray],
    costly: np.ndarray,
    rng: np.random.Generator,
) -> tether.Calibration:
    """Calibrate on the rows of all past rounds, weighed against the mixture of what drew them."""
    counts = [len(each) for each in held]
    actions, past = np.concatenate(held), tether.Mixture(list(deployed), counts)
    log = tether.make_log(safe, optimized, None, actions, costly[actions], logged_by=past)
    proposals = tether.make_proposals(
        safe, optimized, None, settings["proposals"], rng, logged_by=past
    )
    return tether.calibrate(log, proposals, alpha=alpha)


def arms(settings: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Each arm with its temperature and alpha, NaN where it knows none; `arms` selects by name."""
    hot, alpha = settings["temperatures"], settings["alpha"]
    every = [("safe", np.nan, np.nan), ("uniform", np.nan, np.nan)]
    for end in ("", HIDDEN):
        every += [(f"tethered{end}", each, alpha) for each in hot]
        every += [(f"uncontrolled{end}", each, np.nan) for each in hot]
    warm = settings["alphas_temperature"]
    every += [("tethered", warm, each) for each in settings["alphas"] if each != alpha]
    return [each for each in every if each[0] in settings["arms"]]


def one_run(settings: Mapping[str, Any], given: tuple[tuple[str, float, float], int]) -> list[dict]:
    """One arm with one seed."""
    import torch

    torch.set_num_threads(1)
    return list(run(settings, *given[0], given[1]))
