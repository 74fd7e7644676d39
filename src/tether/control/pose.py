"""From a log, proposals, a family and a test weight to a problem, or an error if they do not fit.

Which weights are known is decided here and nowhere else: a normalizing constant is exact over
tables of all actions, and cancels for clip without contexts. Otherwise clip becomes budgeted clip.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.arrays import shown
from tether._core.rows import Block, Pass
from tether.control import families, kernels
from tether.control.checks import with_codes
from tether.control.columns import SHARE_TOLERANCE, Changed, check_normalizer, match
from tether.control.engine import Constraint, Problem
from tether.control.families import BudgetedClip, Clip, Family, Mix, PathFamily, blend_scores
from tether.control.log import Log, Proposals


def pose(
    log: Log,
    proposals: Proposals | None,
    family: Family,
    test_weight: str | float | None,
    blend: float,
    constraints: tuple[Constraint, ...],
    **beside: Pass,
) -> tuple[Problem, dict[str, dict[str, Any]]]:
    """Combine log, proposals, family and test weight; raise if they are inconsistent.

    Rules that need no test weight pass None: then it is the largest among draws, if there are any.
    It takes one pass over the log, in which other kernels may find something `beside`.
    """
    if proposals is not None:
        if not isinstance(proposals, Proposals):
            raise TypeError(f"proposals must be tether.Proposals, got {shown(proposals)}")
        if log.has_tables:
            raise ValueError("proposals are not needed with log_safe_all: the tables are exact")
        if log.has_mixture != ("log_mix" in proposals.rows.names):
            lacking = "proposals" if log.has_mixture else "log"
            raise ValueError(f"log_mix is missing in the {lacking}: give it in both, or in neither")
    if isinstance(family, PathFamily):
        posed = _pose_path(log, proposals, family, test_weight, constraints)
        return posed, with_codes(log.rows, log.context).together(**beside) if beside else {}
    stored = "draws_safe" in log.rows.names
    has_draws = proposals is not None or log.has_tables or stored
    label = _test_weight(test_weight, log, family, has_draws)
    budgeted = isinstance(family, BudgetedClip) or (isinstance(family, Clip) and log.contextual)
    rows, draws, drawn, foreseeing, shared = log.rows, None, None, None, False
    if budgeted or stored:
        from tether.control.draws import with_draws

    if budgeted and not log.has_tables:
        rows, budget, foreseeing, shared = with_draws(log, proposals, family.max_draws)
        family = BudgetedClip(budget)
    elif proposals is not None:
        draws = proposals.rows
        matched = match(log, proposals)
        foreseeing = matched.foreseeing
        check_normalizer(proposals, matched)
        drawn = matched.counts.sum(axis=1).astype(np.float64)
    elif (stored and family.normalized) or (isinstance(family, Mix) and log.has_tables):
        foreseeing = with_draws(log, None, 1)[2] if stored else None
        draws = Changed(rows, _candidates)
    every = with_codes(log.rows, log.context) if beside else log.rows
    kernel = _kernel(log, family)
    if isinstance(kernel, kernels.OnePassKernel):
        beside["gathered"] = kernel.gather(constraints)
    found = every.together(**beside, support=SUPPORT)
    looked, made = [found.pop("support")], draws if proposals is None else proposals.rows
    looked += [] if made is None else [made.together(support=SUPPORT)["support"]]
    never = np.zeros(1), np.full(1, -np.inf)  # does the family take what optimized never does?
    zeros = not family.normalized and family.log_kernel(*never, 0.0)[0] == -np.inf
    zeros = zeros and any(each["zeros"] for each in looked)
    apart = any(each["apart"] or not each["met"] for each in looked)
    if zeros and apart and not blend and family.max_draws is None:
        raise ValueError(
            f"blend is 0, but in {'some context' if log.contextual else 'the log or the draws'} "
            f"the optimized policy takes no action of the safe one, and no policy lies between: "
            f"pass a blend above 0, such as {families.DEFAULT_BLEND:g}"
        )
    if draws is not None and looked[-1]["outside"] and _at(family, -np.inf, 0.0) > -np.inf:
        raise ValueError(
            f"family {family.name!r} needs a safe policy that can take every action of the "
            f"optimized one (absolute continuity), but a draw has log_safe −inf; use family 'clip'"
        )
    blend = blend if zeros else 0.0
    if blend:
        change = partial(_blended, blend)
        rows, draws = Changed(rows, change), None if draws is None else Changed(draws, change)
    elif isinstance(kernel, kernels.OnePassKernel):
        kernel.kept[constraints] = rows, found["gathered"]
    first = None
    if label == "empirical" and draws is not None and "gathered" in found:
        first = kernels.front(draws)
        most = first.columns["log_safe"].max()
        if log.safe_share is not None and most > SHARE_TOLERANCE - np.log(log.safe_share):
            raise ValueError(
                f"proposals: a draw has log_mix below log_safe + log(safe_share), with safe_share "
                f"= {log.safe_share:g}: a mixture is at least that large"
            )
    posed = Problem(
        *(rows, family, kernel, constraints, label, draws, first, drawn),
        safe_share=log.safe_share or 1.0,
        max_ratio=np.inf if log.max_ratio is None else log.max_ratio,
        foreseeing=foreseeing if label == "empirical" else None,
        shares_draws=shared,
        blend=blend,
    )
    return posed, found


def _kernel(log: Log, family: Family) -> kernels.Kernel:
    """How the family weighs rows."""
    if isinstance(family, (Clip, BudgetedClip)) and log.has_tables:
        return kernels.TableKernel(family.max_draws)
    if isinstance(family, BudgetedClip):
        from tether.control.draws import BudgetedKernel

        return BudgetedKernel(family.max_draws)
    if isinstance(family, Clip):
        return kernels.ClipKernel()
    if isinstance(family, Mix):
        return kernels.MixKernel()
    if family.normalized or log.has_tables or (not log.contextual and family.max_draws is None):
        return kernels.OwnKernel(family, tables=log.has_tables)
    raise ValueError(
        f"family {family.name!r} has an unknown normalizing constant in each context: give tables "
        f"of all actions (log_safe_all, log_optimized_all), or use family 'clip' or 'mix'"
    )


# ---- the test weight ---------------------------------------------------------------------------


def _test_weight(
    test_weight: str | float | None, log: Log, family: Family, has_draws: bool
) -> str | float:
    """Where the weight of the next action comes from, or an error where that is not defined.

    Without draws there is no largest weight among them; a clip then falls back to the analytic one.
    """
    if test_weight is None:
        return "empirical" if has_draws else "none"
    if not isinstance(test_weight, str):
        return validate.number("test_weight", test_weight, above=0, below=np.inf)
    validate.choice("test_weight", test_weight, ("empirical", "analytic"))
    if test_weight == "empirical" and has_draws:
        return "empirical"
    path = isinstance(family, PathFamily)
    bounded = not path and np.isfinite(_at(family, 0.0, np.inf))  # whatever the ratio is
    by_ratio = family.normalized and not (path or bounded or log.max_ratio is None)
    label = "max_ratio" if by_ratio else "analytic"
    cancels = family.normalized or (family.clips and family.max_draws is None)
    if label == "analytic" and not (bounded and (cancels or test_weight == "analytic")):
        raise ValueError(
            f"test_weight {test_weight!r} of family {family.name!r} needs proposals (see "
            f"make_proposals), a number or, for mix, the largest ratio: min_propensity in "
            f"tether.make_log, max_ratio in tether.Log, --min-propensity or --max-ratio"
        )
    if log.safe_share is None:
        raise ValueError(
            f"test_weight {label!r} needs safe_share in the log: the share of rows that the safe "
            f"policy produced, since log_mix is given"
        )
    return label


# ---- blends and support ------------------------------------------------------------------------


def _at(family: Family, log_safe: float, log_optimized: float) -> float:
    """The log-density of an action at beta = 1, up to ψ."""
    scores = np.full(1, log_safe), np.full(1, log_optimized)
    with np.errstate(invalid="ignore"):
        return float(family.log_density(*scores, 0.0, np.zeros(1))[0])


def _support(block: Block) -> dict[str, bool]:
    """What a block shows of the support of both policies.

    Whether they share an action in some row, and whether in some row of tables they share none;
    whether the optimized policy never takes an action of the safe one (`zeros`), or the other way
    round (`outside`).
    """
    found = dict.fromkeys(SUPPORT.how, False)
    for end in (end for end in ("", "_all") if "log_optimized" + end in block):
        scores = block["log_safe" + end], block["log_optimized" + end]
        if min(each.min() for each in scores) > -np.inf:
            found["met"] = True
            continue
        possible, acts = (each > -np.inf for each in scores)
        both = possible & acts
        found["met"] |= bool(both.any())
        found["zeros"] |= bool((possible & ~acts).any())
        found["outside"] |= bool((acts & ~possible).any())
        found["apart"] |= bool(end) and not both.any(axis=-1).all()
    for name in ("draws_safe", "draws_optimized"):
        found["zeros"] |= name in block and bool(block[name].min() == -np.inf)
    return found


SUPPORT = Pass(_support, dict.fromkeys(("met", "apart", "zeros", "outside"), "max"))


def _blended(blend: float, block: Block) -> Block:
    """A block with the blend in place of the optimized policy."""
    found = {**block, "log_drawn": block["log_optimized"]}
    for end in ("", "_all"):
        if "log_optimized" + end in block:
            scores = block["log_optimized" + end], block["log_safe" + end]
            found["log_optimized" + end] = blend_scores(*scores, blend)
    for name in ("draws_safe", "draws_optimized", "draws_top"):
        if name in block:  # log ratios
            found[name] = blend_scores(block[name], np.zeros(1), blend)
    return found


def _candidates(block: Block) -> Block:
    """Every action of the tables of a block, or every stored draw, as a row of its own."""
    if tables := [name for name in block if name.endswith("_all")]:
        return {name.removesuffix("_all"): block[name].ravel() for name in tables}
    found = {"log_optimized": np.hstack((block["draws_safe"], block["draws_optimized"])).ravel()}
    if "base_safe" in block:
        found["log_mix"] = -np.hstack((block["base_safe"], block["base_optimized"])).ravel()
    return {"log_safe": np.zeros(len(found["log_optimized"])), **found}


# ---- paths -------------------------------------------------------------------------------------


def _pose_path(
    log: Log,
    proposals: Proposals | None,
    family: PathFamily,
    test_weight: str | float | None,
    constraints: tuple[Constraint, ...],
) -> Problem:
    """The problem of a family that exists along a path of policies only.

    The test weight is the largest among draws of the policies along the path: proof that the next
    action is unforeseen with probability at most 1/(m + 1) in `tether.control.promise`.
    """
    path = log.policy_path
    if path is None or path.family != family.name:
        raise ValueError(
            f"family {family.name!r} needs a policy_path of that family in the log, the density of "
            f"each action at several betas (tether.llm.TokenTether makes it), got {path!r}"
        )
    drawn = None if proposals is None or test_weight is None else proposals.policy_path
    problem = Problem(
        *(log.rows, family, kernels.PathKernel(path.log_beta), constraints),
        test_weight=_test_weight(test_weight, log, family, drawn is not None),
        safe_share=log.safe_share or 1.0,
    )
    if drawn is None or proposals is None or problem.test_weight != "empirical":
        return problem
    assert drawn.drawn_at is not None
    every = np.append(path.log_beta, np.inf)
    levels = np.flatnonzero(np.isin(every, drawn.drawn_at))
    same = drawn.family == path.family and np.array_equal(drawn.log_beta, path.log_beta)
    if not same or not len(levels):
        raise ValueError(
            f"the policy_path of the proposals must have the family and the betas of that of the "
            f"log, {path!r}, and draws at some of these betas (drawn_at), got {drawn!r}"
        )
    fewest = float(min((drawn.drawn_at == every[k]).sum() for k in levels))
    shared = log.context is not None and (
        proposals.context is None or bool(np.isin(proposals.context, log.context).any())
    )
    return replace(
        problem,
        kernel=kernels.PathKernel(path.log_beta, levels),
        draws=proposals.rows,
        foreseeing=(fewest, fewest),
        shares_draws=shared,
    )
