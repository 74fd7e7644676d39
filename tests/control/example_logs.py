"""Random and Gaussian logs with proposals, and problems with contexts whose risk is known.

Where a function also returns a risk, it is computed by the definition (`direct_formulas`).
"""

from __future__ import annotations

import numpy as np

import tether
from tests.control import direct_formulas
from tests.control.direct_formulas import LONG
from tether.control.problem import pose


def random_columns(
    rng: np.random.Generator, rows: int, draws: int, *, spread=1.0, mix=False, ties=False
):
    """A random marginal problem as a dictionary of columns."""
    made = {
        "loss": rng.choice([0.0, 0.3, 1.0], size=rows, p=[0.7, 0.1, 0.2]),
        "safe": rng.normal(size=rows) - 2,
        "optimized": np.zeros(rows),
        "draw_safe": rng.normal(size=draws) - 2,
        "draw_optimized": np.zeros(draws),
    }
    made["optimized"] = made["safe"] + spread * rng.normal(size=rows)
    made["draw_optimized"] = made["draw_safe"] + spread * rng.normal(size=draws) + 0.3 * spread
    if ties:
        made["optimized"] = made["safe"] + np.round(made["optimized"] - made["safe"])
        made["draw_optimized"] = made["draw_safe"] + np.round(
            made["draw_optimized"] - made["draw_safe"]
        )
    if mix:
        made["mix"] = made["safe"] + rng.normal(size=rows)
        made["draw_mix"] = made["draw_safe"] + rng.normal(size=draws)
    else:
        made["mix"], made["draw_mix"] = made["safe"], made["draw_safe"]
    return made


def gaussian_columns(rng: np.random.Generator, rows: int, draws: int):
    """The columns of N(0, 1) against N(1, 0.8), harmful past 1.5: the safe risk is 0.067."""
    action, drawn = rng.normal(size=rows), 1 + 0.8 * rng.normal(size=draws)
    made = {"loss": (action > 1.5).astype(float)}
    for prefix, values in (("", action), ("draw_", drawn)):
        made[f"{prefix}safe"] = made[f"{prefix}mix"] = -(values**2) / 2
        made[f"{prefix}optimized"] = -(((values - 1) / 0.8) ** 2) / 2 - np.log(0.8)
    return made


def log_and_proposals(made, mixed):
    """Columns as a log and proposals, with or without their mixture."""
    log_mix = {"log_mix": made["mix"]} if mixed else {}
    draw_mix = {"log_mix": made["draw_mix"]} if mixed else {}
    log = tether.Log(made["loss"], made["safe"], made["optimized"], **log_mix)
    return log, tether.Proposals(made["draw_safe"], made["draw_optimized"], **draw_mix)


def _log_probabilities(rng, contexts, actions, spread):
    scores = spread * rng.normal(size=(contexts, actions))
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def finite_world(rng, rows=25, actions=4, mixed=False, kernel=direct_formulas.clip_kernel):
    """A log of a finite action set, its calibrated risk by the definition, and where to look.

    The mixture is half of the safe policy. The risk takes a grid of log beta and, in place of the
    empirical test weight, a function of the normalizers (contexts × grid) and the grid; `off` is
    that of `direct_formulas.contextual_risk`.
    """
    safe, optimized = (_log_probabilities(rng, rows, actions, spread) for spread in (0.7, 1.5))
    mix = safe
    if mixed:
        mix = np.logaddexp(safe, _log_probabilities(rng, rows, actions, 0.5)) - np.log(2)
    taken = rng.integers(actions, size=rows)
    loss = (rng.random(rows) < 0.15).astype(float)
    at = (np.arange(rows), taken)
    log = tether.Log(
        loss,
        safe[at],
        optimized[at],
        log_safe_all=safe,
        log_optimized_all=optimized,
        log_mix=mix[at] if mixed else None,
        log_mix_all=mix if mixed else None,
        safe_share=0.5 if mixed else None,
    )

    def risk(grid, test=None, off=None):
        tables = (part[..., None].astype(LONG) for part in (safe, optimized))
        kernels = np.exp(kernel(*tables, grid))
        psi = kernels.sum(axis=1)
        weight = kernels / psi[:, None] / np.exp(mix[..., None].astype(LONG))
        heaviest = weight.max(axis=(0, 1)) if test is None else test(psi, grid)
        return direct_formulas.contextual_risk(loss, weight[at] * psi, psi, heaviest, off=off)

    return log, risk, (optimized - safe).min() - 1, (optimized - safe).max() + 1


def drawn_world(rng, rows=20, draws=3):
    """A log with one context per row, proposals, and the same as for `finite_world`.

    Every context has `draws` draws of each policy, so what is calibrated is budgeted clip with as
    many proposals. In the risk, `test` is a function of the grid.
    """
    shift = rng.normal(size=rows)
    action = rng.normal(size=rows)
    from_safe = rng.normal(size=(rows, draws))
    from_optimized = rng.normal(size=(rows, draws)) + shift[:, None]
    score = lambda a, m: -((a - m) ** 2) / 2  # noqa: E731
    loss = (rng.random(rows) < 0.2).astype(float)
    log = tether.Log(loss, score(action, 0), score(action, shift), context=np.arange(rows))
    drawn = np.concatenate((from_safe, from_optimized), axis=1)
    safe, optimized = score(drawn, 0).ravel(), score(drawn, shift[:, None]).ravel()
    label = np.repeat(np.arange(rows), 2 * draws)
    source = np.tile(np.repeat(["safe", "optimized"], draws), rows)
    order = rng.permutation(len(label))
    proposals = tether.Proposals(
        safe[order], optimized[order], context=label[order], source=source[order]
    )
    drawn_ratio = (optimized - safe).reshape(rows, 2 * draws)

    def risk(grid, test=None, off=None):
        weight, heaviest = [], []
        for row in range(rows):
            points = np.append(log.log_optimized[row] - log.log_safe[row], drawn_ratio[row])
            halves = drawn_ratio[row, :draws], drawn_ratio[row, draws:]
            ratio = direct_formulas.budgeted_ratio(points, *halves, grid)
            weight.append(ratio[0])
            heaviest.append(ratio[1:].max(axis=0))
        last = np.max(heaviest, axis=0) if test is None else test(grid)
        return direct_formulas.contextual_risk(loss, np.array(weight), 1, last, off=off)

    ratios = np.append(optimized - safe, log.log_optimized - log.log_safe)
    return log, proposals, risk, ratios.min() - 1, ratios.max() + 1


def random_problem(seed, family, test_weight):
    """A problem with draws in contexts, with tables, or without contexts, by the seed."""
    rng = np.random.default_rng(seed)
    if family.name == "mix" and test_weight == "analytic":
        test_weight = "empirical"
    if seed % 3 == 0:
        log, proposals, *_ = drawn_world(rng, rows=12, draws=5)
    elif seed % 3 == 1:
        log, *_ = finite_world(rng, rows=12, mixed=seed % 2 == 0)
        proposals = None
    else:
        log, proposals, *_ = drawn_world(rng, rows=12, draws=5)
        log = tether.Log(log.loss, log.log_safe, log.log_optimized)
        source = np.where(proposals.from_safe, "safe", "optimized")
        proposals = tether.Proposals(proposals.log_safe, proposals.log_optimized, source=source)
    return pose(log, proposals, family, test_weight)


def without_row(log, row):
    """The same log with one row less."""
    keep = np.arange(len(log)) != row
    cut = lambda part: None if part is None else part[keep]  # noqa: E731
    return tether.Log(
        {name: loss[keep] for name, loss in log.loss.items()},
        log.log_safe[keep],
        log.log_optimized[keep],
        context=cut(log.context),
        log_mix=cut(log.log_mix),
        log_safe_all=cut(log.log_safe_all),
        log_optimized_all=cut(log.log_optimized_all),
        log_mix_all=cut(log.log_mix_all),
    )


def leave_one_out(found):
    """Log of the largest beta without each row, for the first constraint."""
    problem = found._problem
    return problem.exact_solver.leave_one_out(problem, found.constraints[0])


def calibrated(rows=600, alpha=0.1, seed=0, **how):
    """The calibration of a Gaussian log with 400 proposals, and its columns."""
    made = gaussian_columns(np.random.default_rng(seed), rows, 400)
    return tether.calibrate(*log_and_proposals(made, False), alpha=alpha, **how), made
