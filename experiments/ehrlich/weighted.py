"""Control by likelihood ratios: clip and mix, with all past policies in the mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tether
from experiments.ehrlich.function import Sequences
from experiments.ehrlich.policy import Floats, Prompted
from experiments.ehrlich.rounds import Run
from tether.control.families import find_family


class WeightedRun(Run):
    """Each round calibrates on the rows of all rounds, and serves a tethered policy."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.family = find_family(self.labels["arm"])
        self.safe = self.start.safe
        self.served: list[tuple[Prompted | None, float, float]] = []
        """Each round's optimized policy (None: the safe one alone), log beta and log ψ."""
        self.counts: list[int] = []
        """Calibration rows of each round."""
        self.actions: list[Sequences] = []
        self.known: dict[tuple[int, int], Floats] = {}
        """Scores of each round's calibration rows under each policy, computed once."""

    def deploy_safe(self, count: int) -> Sequences:
        """The safe policy's rows."""
        actions = self.safe.sample(count, self.rng)
        self._observe(actions, None, -np.inf, 0.0)
        return actions

    def deploy(self, count: int, row: dict[str, Any]) -> Sequences:
        """Calibrate, then serve."""
        log_beta, log_psi = self._calibrate(row)
        with np.errstate(over="ignore"):
            beta = float(np.exp(log_beta))
        policy = tether.Tethered(self.safe, self.current, beta, family=self.family.name)
        actions, info = policy.sample_with_info(count, self.rng)
        row |= {"draws": info.draws / info.actions, "log_beta": log_beta}
        self._observe(actions, None if log_beta == -np.inf else self.current, log_beta, log_psi)
        return actions

    def passed(self, row: Mapping[str, Any]) -> bool:
        """Whether beta was at least 1."""
        return bool(row["log_beta"] >= 0)

    def _observe(
        self, actions: Sequences, policy: Prompted | None, log_beta: float, log_psi: float
    ) -> None:
        chosen = self.keep(actions, self.settings["calibration_share"])
        self.actions.append(actions[chosen])
        self.counts.append(int(chosen.sum()))
        self.served.append((policy, log_beta, log_psi))

    def _calibrate(self, row: dict[str, Any]) -> tuple[float, float]:
        """Log beta and its normalizer; −inf where nothing passes.

        Beta goes no further than accept-reject can follow with `most_draws` draws. Every smaller
        beta passes where one passes, and the draws alone say what is affordable.
        """
        count = self.settings["proposals"]
        drawn = np.concatenate([each.sample(count, self.rng) for each in (self.safe, self.current)])
        rows = np.concatenate(self.actions)
        pair = self.safe, self.current
        scored = [[self._of_rows(each) for each in pair]]
        scored.append([each.log_prob(None, drawn) for each in pair])
        row["drift"] = float((scored[1][1] - scored[1][0])[count:].mean())
        mixed = [self._log_mix(None, scored[0][0]), self._log_mix(drawn, scored[1][0])]
        log = tether.Log(np.isneginf(self.function(rows)) * 1.0, *scored[0], log_mix=mixed[0])
        source = np.repeat(["safe", "optimized"], count)
        proposals = tether.Proposals(*scored[1], log_mix=mixed[1], source=source)
        found = tether.calibrate(
            log, proposals, alpha=self.labels["alpha"], family=self.family.name
        )
        row |= {"allowed": found.log_beta}
        if not found.exists:
            return -np.inf, 0.0
        if self.family.name == "mix" or not np.isfinite(found.log_beta):
            return found.log_beta, 0.0
        log_beta = affordable(found.log_beta, *scored[1], self.settings["most_draws"])
        if not np.isfinite(log_beta):
            return log_beta, 0.0
        return log_beta, float(log_acceptance(log_beta, *scored[1])[0]) + min(log_beta, 0.0)

    def _of_rows(self, policy: Any) -> Floats:
        """Scores of all calibration rows; `known` keeps those of every round."""
        for number, actions in enumerate(self.actions):
            if (id(policy), number) not in self.known:
                self.known[id(policy), number] = policy.log_prob(None, actions)
        return np.concatenate([self.known[id(policy), n] for n in range(len(self.actions))])

    def _log_mix(self, actions: Sequences | None, log_safe: Floats) -> Floats:
        """Under the mixture of all that was deployed, by the rows that each produced."""
        columns = []
        for policy, log_beta, log_psi in self.served:
            if policy is None:
                columns.append(log_safe)
                continue
            own = self._of_rows(policy) if actions is None else policy.log_prob(None, actions)
            columns.append(self.family.log_density(log_safe, own, log_beta, log_psi))
        return tether.control.mixture_log_density(columns, self.counts)


def log_acceptance(log_beta: float | Floats, log_safe: Floats, log_optimized: Floats) -> Floats:
    """Log of ψ(β)/min(β, 1), the share of draws that accept-reject keeps, at each beta.

    From draws of which half came from either policy: a draw counts its kernel over the sum of both
    densities times half the draws.
    """
    log_beta = np.atleast_1d(np.asarray(log_beta, dtype=np.float64))
    log_mass = np.logaddexp(log_safe, log_optimized) + np.log(len(log_safe) / 2)
    kernel = np.minimum(log_optimized, log_beta[:, None] + log_safe) - log_mass
    log_share = np.logaddexp.reduce(kernel, axis=1) - np.minimum(log_beta, 0.0)
    return np.minimum(log_share, 0.0)


def affordable(log_beta: float, log_safe: Floats, log_optimized: Floats, draws: float) -> float:
    """The largest log beta up to `log_beta` that takes at most `draws` draws an action."""
    ratio = log_optimized - log_safe
    grid = np.unique(np.minimum(np.quantile(ratio, np.linspace(0, 1, 513)), log_beta))
    cheap = log_acceptance(grid, log_safe, log_optimized) >= -np.log(draws)
    return log_beta if cheap[-1] else float(grid[cheap].max(initial=ratio.min()))
