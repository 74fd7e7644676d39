"""Simulated runs of many worlds in one table: what is deployed beside what was promised.

A case is a world and a procedure; each of its runs draws a fresh log, calibrates on it, and says
which expected loss the policy that is served has in truth. A line of the table has the mean of
these risks over runs with its standard error, alpha, the mean of the promises that were stated, and
the share of runs whose risk is above alpha.

A case fails if, by more than three standard errors, the mean risk is above the mean stated promise,
both over the runs in which a beta passes (where none does, nothing is promised); or if the mean
risk over all runs is above alpha (except where the safe policy's own risk is alpha, so that on many
logs no beta exists); or if the share of runs above alpha is more than 1 − confidence.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

import tether

ERRORS = 3.0
"""How many standard errors chance may carry a mean."""
ROUNDING = 1e-9
"""How far above alpha a risk must be to count as above it."""


@dataclass(frozen=True)
class Served:
    """What one round of one run deployed: its true risks, and the calibration that allowed it."""

    risks: dict[str, float]
    log_beta: float
    found: tether.Calibration | None = None
    reward_kept: float = np.nan
    """0 is the safe policy's reward, 1 the optimized one's."""


@dataclass(frozen=True)
class Case:
    """A world with a procedure, and how often it is run."""

    world: str
    procedure: str
    alpha: dict[str, float]
    run: Callable[[np.random.Generator], Sequence[Served]]
    """One run: what each of its rounds deployed. It must be possible to pickle it."""
    repeats: int
    promised: int = 10**9
    """In how many of the runs the promise is computed, which can take longer than calibration."""
    confidence: float | None = None
    at_alpha: bool = False
    """Whether the safe policy's risk is alpha itself, so that a beta exists on some logs only."""
    wrong: bool = False
    """Whether the procedure is wrong on purpose, and is expected to fail."""
    first_round: int = 1
    """The number of the first round of a run that is shown."""

    @property
    def seed(self) -> int:
        """The same in every order of the cases."""
        return zlib.crc32(f"{self.world}, {self.procedure}".encode())


@dataclass(frozen=True)
class Line:
    """The runs of one round of a case."""

    case: Case
    round: int | None
    risks: dict[str, np.ndarray]
    log_beta: np.ndarray
    promises: dict[str, np.ndarray]
    """NaN in runs in which no beta passes, or the promise was not computed."""
    reward_kept: np.ndarray = field(repr=False)

    @property
    def share_above(self) -> float:
        """The share of runs in which any risk is above its alpha."""
        above = [self.risks[name] > alpha + ROUNDING for name, alpha in self.case.alpha.items()]
        return float(np.any(above, axis=0).mean())

    @property
    def failures(self) -> list[str]:
        """What does not hold, in words."""
        case, found = self.case, []
        for name, alpha in case.alpha.items():
            promise, promise_error = mean_and_error(self.promises[name])
            risk, error = mean_and_error(self.risks[name][self.log_beta > -np.inf])
            if risk > promise + ERRORS * np.hypot(error, promise_error):
                found.append(
                    f"mean {name} where a beta passes {risk:.4f} ± {error:.4f} > promise "
                    f"{promise:.4f}"
                )
            risk, error = mean_and_error(self.risks[name])
            if not case.at_alpha and risk > alpha + ERRORS * error:
                found.append(f"mean {name} {risk:.4f} ± {error:.4f} > alpha {alpha:g}")
        if case.confidence is not None:
            level = 1 - case.confidence
            error = np.sqrt(level * case.confidence / len(self.log_beta))
            if self.share_above > level + ERRORS * error:
                found.append(f"{self.share_above:.1%} of the runs above alpha > {level:.1%}")
        return found

    def __str__(self) -> str:
        case = self.case
        world = case.world if self.round is None else f"{case.world}, round {self.round}"
        with np.errstate(over="ignore"):
            beta = np.exp(np.median(self.log_beta))
        kept = np.nan if np.isnan(self.reward_kept).all() else self.reward_kept.mean()
        lines = []
        for name, alpha in case.alpha.items():
            risk, error = mean_and_error(self.risks[name])
            promise, _ = mean_and_error(self.promises[name])
            shown = "-" if np.isnan(promise) else f"{promise:.4f}"
            lines.append(f"{risk:.4f} ± {error:.4f}  {alpha:>5g} {shown:>8}")
        above = f"{self.share_above:.1%}" if case.confidence is not None else "-"
        held = "NO" if self.failures else "yes"
        first = (
            f"{world:<39} {case.procedure:<30} {lines[0]} {above:>6} {held:>5} {beta:>8.3g} "
            f"{np.isneginf(self.log_beta).mean():>9.1%} "
            f"{'-' if np.isnan(kept) else f'{kept:.1%}':>11}"
        )
        return "\n".join([first, *(f"{'':<70} {line}" for line in lines[1:])])


HEAD = (
    f"{'world':<39} {'procedure':<30} {'risk ± se':<15}  {'alpha':>5} {'promise':>8} {'above':>6} "
    f"{'held':>5} {'beta':>8} {'safe only':>9} {'reward kept':>11}"
)


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean of some runs and its standard error; NaN for none, and no error for one."""
    values = values[~np.isnan(values)]
    if not len(values):
        return np.nan, np.nan
    if len(values) == 1:
        return float(values[0]), 0.0
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def simulate(case: Case, repeats: int | None = None) -> list[Line]:
    """The lines of a case, one for each round."""
    rng, runs, promises = np.random.default_rng(case.seed), [], []
    for number in range(repeats or case.repeats):
        served = case.run(rng)
        asked = number < case.promised
        promises.append([_promises(each) if asked else {} for each in served])
        # Without the calibrations, which hold their logs.
        runs.append([(each.risks, each.log_beta, each.reward_kept) for each in served])
    lines = []
    for index in range(len(runs[0])):
        risks, log_betas, kept = zip(*(run[index] for run in runs), strict=True)
        stated = [run[index] for run in promises]
        lines.append(
            Line(
                case,
                index + case.first_round if len(runs[0]) > 1 else None,
                {name: np.array([risk[name] for risk in risks]) for name in case.alpha},
                np.array(log_betas),
                {
                    name: np.array([each.get(name, np.nan) for each in stated])
                    for name in case.alpha
                },
                np.array(kept),
            )
        )
    return lines


def _promises(served: Served) -> dict[str, float]:
    found = served.found
    return found.promises if found is not None and found.exists else {}


def _timed(case: Case, repeats: int | None) -> tuple[list[Line], float]:
    begun = time.process_time()
    return simulate(case, repeats), time.process_time() - begun


def run_table(
    cases: Iterable[Case], share: float = 1.0, workers: int = 2, *, times: bool = False
) -> bool:
    """Print the table; whether every right procedure held and each wrong one failed somewhere."""
    cases, good, failed = list(cases), True, {}
    print(HEAD, flush=True)
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(_timed, each, max(2, round(share * each.repeats))) for each in cases]
        for case, job in zip(cases, jobs, strict=True):
            lines, spent = job.result()
            for line in lines:
                print(line, flush=True)
                if case.wrong:
                    failed[case.procedure] = failed.get(case.procedure, False) or bool(
                        line.failures
                    )
                elif line.failures:
                    good = False
                    print(f"    FAILED: {'; '.join(line.failures)}", flush=True)
            if times:
                runs = len(lines[0].log_beta)
                print(f"    {runs:,} runs, {spent:.1f} s of processor time", flush=True)
    for procedure, seen in failed.items():
        if not seen:
            print(f"'{procedure}' was not seen to fail")
    return good and all(failed.values())
