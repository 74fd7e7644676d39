"""One run after another: policies, calibration and evaluations of each arm.

These stand apart from `__main__`, which worker processes cannot import.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tether
from experiments.bayesian_optimization import aimed, townsend
from experiments.shortlist_rounds import ShortlistRounds
from tether import bo

PAPER = ("tethered", "uncontrolled", "safe", "uniform")
"""The arms of the paper's experiment."""
AIMED = ("aimed", "aimed ramp", "aimed, uncontrolled", "shortlist")
"""Arms whose acquisition is aimed at a share of alpha."""
CALIBRATED = ("tethered", "aimed", "shortlist")
"""Arms that learn from half of their evaluations and calibrate on the other half."""


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
) -> bo.AcquisitionPool:
    """The optimized policy: log expected improvement plus log-probability of being feasible.

    The value of a point is seen whether or not it is feasible, and improvement is over the best
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
    values = torch.tensor(townsend.objective(points))[:, None]
    model = SingleTaskGP(
        torch.tensor(points),
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
    improvement = qLogExpectedImprovement(model, values[inside].max(), sampler=sampler)
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
    uniform = tether.Pool.uniform(len(candidates))
    actions = safe.sample(settings["initial"], rng)
    learned, held = actions[::2], [actions[1::2]]  # to learn from, to calibrate on
    deployed: list[Any] = [safe]
    policy, beta, risk = safe, np.nan, _risk(safe, ~inside)
    lists = ShortlistRounds(safe, settings["shortlist_size"])
    if arm == "shortlist":
        lists.begin(held[0], rng)
    for number in range(settings["rounds"] + 1):
        if number and arm in ("safe", "uniform"):
            policy = safe if arm == "safe" else uniform
            drawn, risk = policy.sample(settings["batch"], rng), _risk(policy, ~inside)
        elif number:
            # An arm that is not calibrated on past rows learns from everything.
            seen = learned if arm in CALIBRATED or "ramp" in arm else actions
            optimized = learn(settings, candidates, seen, temperature, rng)
            if arm in AIMED:
                predicted = aimed.predicted_violations(settings, candidates, seen, inside)
                optimized = aimed.aim(settings, optimized, predicted, alpha)
            if "ramp" in arm:
                ramp = aimed.ramp_round(
                    settings["ramp_steps"], alpha, safe, optimized, held[0], ~inside, rng
                )
                drawn, risk, beta = ramp.actions, ramp.risk, ramp.share
                learned = np.concatenate([learned, drawn])
            elif arm == "shortlist":
                served = lists.calibrate(optimized, alpha, ~inside)
                drawn, rows, place = served.sample_with_rows(settings["batch"], rng)
                lists.keep(served, rows[np.arange(1, len(rows), 2)], place[1::2])
                learned, beta = np.concatenate([learned, drawn[::2]]), served.beta
                risk = float(np.mean(~inside[served.sample(settings["shortlist_draws"], rng)]))
            else:
                policy = optimized
                if arm in CALIBRATED:
                    found = calibrate(
                        settings, alpha, safe, optimized, deployed, held, ~inside, rng
                    )
                    policy, beta = tether.Tethered(safe, optimized, found), found.beta
                drawn, risk = policy.sample(settings["batch"], rng), _risk(policy, ~inside)
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
            "risk": risk,
            "violations": float((~inside[actions[-settings["batch"] :]]).mean()),
            "best": float(value[good].max()) if len(good) else np.nan,
            "beta": beta,
            "points": " ".join(map(str, actions[-settings["batch"] :])) if seed == 0 else "",
        }


def _risk(policy: Any, costly: np.ndarray) -> float:
    return float(np.exp(policy.log_prob_all(1)[0]) @ costly)


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
    """Each arm with its temperature and alpha, NaN where it knows none; `arms` selects by name.

    The paper's arm runs at every temperature, and at one of them at every alpha; the aimed ramp at
    every temperature. The others beyond the paper run at one temperature.
    """
    hot, alpha = settings["temperatures"], settings["alpha"]
    dial = [each for each in settings["alphas"] if each != alpha]
    warm, cold = settings["alphas_temperature"], settings["aim_temperature"]
    every = [
        *(("tethered", temperature, alpha) for temperature in hot),
        *(("tethered", warm, each) for each in dial),
        *(("uncontrolled", temperature, np.nan) for temperature in hot),
        ("safe", np.nan, np.nan),
        ("uniform", np.nan, np.nan),
        *(("aimed ramp", temperature, alpha) for temperature in hot),
        ("ramp", warm, alpha),
        ("aimed", cold, alpha),
        ("shortlist", cold, alpha),
        ("aimed, uncontrolled", cold, alpha),
    ]
    return [each for each in every if each[0] in settings["arms"]]


def seeds_of(settings: Mapping[str, Any], arm: str, temperature: float) -> range:
    """The seeds of an arm: fewer for those beyond the paper, but for the one that was tuned."""
    if arm in PAPER:
        return range(settings["seeds"])
    tuned = (arm, temperature) == ("aimed ramp", settings["aim_temperature"])
    return range(settings["tuned_seeds" if tuned else "aim_seeds"])


def one_run(
    settings: Mapping[str, Any], folder: Path, given: tuple[tuple[str, float, float], int]
) -> list[dict]:
    """One arm with one seed; kept in a file, so that a run that broke off can go on."""
    (arm, temperature, alpha), seed = given
    left_out = ("arms", "seeds", "aim_seeds", "tuned_seeds", "temperatures", "alphas")
    stated = {name: value for name, value in settings.items() if name not in left_out}
    key = json.dumps(stated, sort_keys=True)
    kept = folder / f"{arm.replace(', ', '-').replace(' ', '-')}-{temperature}-{alpha}-{seed}.json"
    if kept.exists() and (found := json.loads(kept.read_text()))["settings"] == key:
        return found["rows"]
    import torch

    torch.set_num_threads(1)
    rows = list(run(settings, arm, temperature, alpha, seed))
    kept.write_text(json.dumps({"settings": key, "rows": rows}))
    return rows
