"""How many rows a log needs before a calibration passes, and what to expect of a log of any size.

Whether anything but the safe policy is served is decided at the first beta, the safe policy itself,
where all weights are 1: only losses matter. The number of rows with a loss is binomial, and the
probability that a log of n rows passes is a sum over it; losses of several sizes are taken for one
with their mean and their mean square. What beta to expect is computed by the calibration itself, on
points that stand for a typical log: row i counts n·p_i times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tether._core import records, validate
from tether._core.arrays import TIE_TOLERANCE, Floats
from tether._core.rows import Rows
from tether._core.words import Columns, Described, Description
from tether.control.chain import design, factors, find_chain
from tether.control.confidence import bettors, certified, certify
from tether.control.engine import LARGEST_LOG, Constraint, Problem, measure, search
from tether.control.families import DEFAULT_BLEND, Mix, find_family
from tether.control.log import Log, Proposals
from tether.control.pose import pose
from tether.control.unbiased import Weights, candidates

ROW_MULTIPLES = (1, 2, 5, 10, 100)  # of the likely number of rows: the logs a plan describes
MOST_ROWS = 10**9  # no plan has more rows than this
MOST_POINTS = 4000  # a log with more rows stands for itself by so many of them, evenly spaced
MOST_COUNTS = 2000  # for how many numbers of losses the probability of passing is computed
TINY = 1e-100  # stands for a capital that is lost
STANDARD_SCORES = np.arange(-8.0, 12.01, 0.05)  # where a normal distribution has its points


@dataclass(frozen=True)
class Expected:
    """What to expect of a log of so many rows: beta, and the share of actions that it changes."""

    rows: int
    pass_probability: float
    beta: float
    changed: float


@dataclass(frozen=True)
class Plan(records.Saved, Described):
    """How many rows a log needs, and what to expect of logs of several sizes.

    A log passes if something other than the safe policy is served. A plan is an expectation under
    a simple model, not a promise. The attributes that are not listed are the arguments of `plan`,
    or what was measured from the log in their place.

    Examples
    --------
    >>> from tether import plan
    >>> made = plan(promise=0.1, safe_risk=0.05)
    >>> made.rows_needed, made.rows_likely
    (23, 133)
    """

    rule: str  #: "alpha", "promise" or "confidence".
    level: float  #: The alpha or the promise.
    confidence: float | None
    bound: float
    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float
    pass_probability: float
    rows_needed: float  #: The rows from which on half of all logs pass; inf if none are enough.
    rows_likely: float  #: The same for a share of `pass_probability` of them.
    expected: tuple[Expected, ...]
    family: str
    log_rows: int | None = None  #: The rows of the log that the plan was measured from.

    @property
    def possible(self) -> bool:
        """Whether some number of rows is enough."""
        return math.isfinite(self.rows_likely)

    def to_frame(self) -> Columns:
        """Return what to expect of each size as columns."""
        names = ("rows", "pass_probability", "beta", "changed")
        return Columns(
            {name: np.array([getattr(e, name) for e in self.expected]) for name in names}
        )

    def _describe(self) -> Description:
        sure = "" if self.confidence is None else f" with confidence {self.confidence:g}"
        asked = "promise" if self.rule == "promise" else "alpha"
        assumed = (
            f"an expected loss of {self.safe_risk:.3g} for the safe policy and "
            f"{self.optimized_risk:.3g} for the optimized one; log ratios with a standard "
            f"deviation of {self.log_ratio_spread:.3g}; family {self.family}"
        )
        tolerated = f"{asked} {self.level:g}{sure}, of losses up to {self.bound:g}"
        facts = [("tolerated", tolerated), ("assumed", assumed)]
        if not self.possible:
            text = "no number of rows is enough: the safe policy's risk is not below"
            return Description(f"{text} {self.level:g}", "stop", tuple(facts))
        rows = f"with {self.rows_needed:,} rows half of all logs pass; {self.rows_likely:,} pass"
        facts.append(("rows", f"{rows} with probability {self.pass_probability:g}"))
        notes = ["a plan is an expectation under a simple model, not a promise"]
        if self.rule == "promise":
            notes.append("fix the number of rows before you look at the losses")
        if self.log_rows and self.safe_risk == 0:
            likely = min(3 / self.log_rows, 1.0) * self.bound
            notes.append(
                f"no row of this log has a loss; a safe risk of up to {likely:.2g} would not be "
                f"unusual, and needs more rows"
            )
        return Description(
            f"plan: {self.rows_likely:,} rows of the safe policy{sure}",
            "good",
            tuple(facts),
            caption="what to expect of a log of so many rows:",
            table=self.to_frame(),
            notes=tuple(notes),
        )


def plan(
    log: Log | None = None,
    proposals: Proposals | None = None,
    *,
    safe_risk: float | None = None,
    alpha: float | None = None,
    promise: float | None = None,
    confidence: float | None = None,
    bound: float = 1.0,
    optimized_risk: float | None = None,
    rows: int | None = None,
    pass_probability: float = 0.9,
    family: str = "clip",
) -> Plan:
    """Estimate how many rows to log, and what to expect of them.

    The rules are those of `calibrate`: `alpha`, `promise`, or either with a `confidence`. The
    promise by the soft chain asks for a number of rows that is fixed beforehand: this one.

    Parameters
    ----------
    log : Log, optional
        A log of the safe policy in memory, with one loss, that the next log will be like.
    proposals : Proposals, optional
        Draws for it, as `calibrate` takes them.
    safe_risk : float, optional
        The expected loss of the safe policy; required without a log, and measured from it.
    alpha, promise, confidence, bound : float, optional
        As in `calibrate`.
    optimized_risk : float, optional
        Without a log, that of the optimized policy; by default twice the tolerated one.
    rows : int, optional
        The number of rows to describe; by default several multiples of the likely one.
    pass_probability : float, default 0.9
        The probability with which the likely number of rows passes.
    family : str, default "clip"
        The family to plan for. Without a log, losses are 0 or `bound`, log ratios normal with a
        standard deviation of 1, and weights known: by tables of all actions, or many proposals.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05, confidence=0.95)
    >>> made.rows_needed, made.rows_likely
    (240, 471)
    """
    asked, given = validate.one_target(alpha, promise)
    bound = validate.number("bound", bound, above=0, below=np.inf)
    level = validate.number(asked, given, above=0, below=bound)
    rule = asked if confidence is None else "confidence"
    if confidence is not None:
        confidence = validate.number("confidence", confidence, above=0, below=1)
    pass_probability = validate.number("pass_probability", pass_probability, above=0, below=1)
    if log is None and safe_risk is None:
        raise TypeError("safe_risk, the safe policy's expected loss, is required without a log")
    if safe_risk is not None:
        safe_risk = validate.number("safe_risk", safe_risk, above=0, below=bound, including=(0,))
    like, share = log, None
    if like is None:
        assert safe_risk is not None
        risk = min(2 * level, bound) if optimized_risk is None else optimized_risk
        risk = validate.number("optimized_risk", risk, above=0, below=bound, including=(0, bound))
        like, share = _log_of(safe_risk, risk, bound)
        family = "mix" if isinstance(find_family(family), Mix) else "clip"
    if len(like.loss_names) != 1:
        raise ValueError(f"log must have one loss for a plan, got {list(like.loss_names)}")
    constraint = Constraint(like.loss_names[0], level, bound)
    weight = "empirical" if rule == "alpha" else None
    points = _points(like, proposals, family, weight, constraint, share, safe_risk)
    possible = points.ratio > -np.inf
    optimized = points.share * np.exp(points.ratio - points.ratio.max())
    made = Plan(
        rule=rule,
        level=level,
        confidence=confidence,
        bound=bound,
        safe_risk=float(points.share @ points.loss),
        optimized_risk=float(np.average(points.loss, weights=optimized)),
        log_ratio_spread=_variance(points.ratio[possible], points.share[possible]) ** 0.5,
        pass_probability=pass_probability,
        rows_needed=math.inf,
        rows_likely=math.inf,
        expected=(),
        family=points.problem.family.name,
        log_rows=None if log is None else len(log),
    )
    needed, likely = (_rows_for(made, points, each) for each in (0.5, pass_probability))
    sizes = [validate.integer("rows", rows)] if rows is not None else []
    if not sizes and math.isfinite(likely):
        sizes = [int(likely * each) for each in ROW_MULTIPLES]
        sizes = sorted({*sizes, *([] if log is None else [len(log)])})
    expected = []
    for size in sizes:
        log_beta, changed = points.expect(made, size)
        beta = math.exp(log_beta) if log_beta < LARGEST_LOG else math.inf
        expected.append(Expected(size, _pass_probability(made, points, size), beta, changed))
    return replace(made, rows_needed=needed, rows_likely=likely, expected=tuple(expected))


# ---- how many rows -----------------------------------------------------------------------------


def _rows_for(made: Plan, points: _Points, probability: float) -> float:
    """The fewest rows from which on logs pass with a probability; inf where none are enough.

    A promise needs no fewer rows than its alpha.
    """

    def enough(rows: int) -> bool:
        return _pass_probability(made, points, rows) >= probability

    high = 1
    while not (enough(high) and enough(high + 1 + high // 20)):
        high *= 2
        if high > MOST_ROWS:
            return math.inf
    low = high // 2
    while high - low > max(1, low // 2000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    # The number of losses is an integer, so a few larger logs may pass less often.
    ahead = [n for n in range(high + 1, high + 2 + min(high // 4, 200)) if not enough(n)]
    needed = ahead[-1] + 1 if ahead else high
    if made.rule == "promise":
        return max(needed, _rows_for(replace(made, rule="alpha"), points, probability))
    return needed


def _pass_probability(made: Plan, points: _Points, rows: int) -> float:
    """The probability that a log of so many rows serves anything but the safe policy.

    What decides is a sum over rows: of losses, or of the logs of what bettors' capitals become. It
    is taken for so much in each of the rows with a loss, whose number is binomial.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    if made.safe_risk >= made.level:
        return 0.0
    level, log_shares = made.level, np.zeros(1)
    mean, square = points.share @ points.loss, points.share @ points.loss**2
    size = square / mean if mean else made.bound
    share = float(mean / size)
    spread = 9 * math.sqrt(rows * share * (1 - share)) + 9
    low, high = max(0, int(rows * share - spread)), min(rows, int(rows * share + spread) + 1)
    count = np.unique(np.linspace(low, high, min(high - low + 1, MOST_COUNTS)).astype(np.int64))
    ways = gammaln(rows + 1) - gammaln(count + 1) - gammaln(rows - count + 1)
    chance = np.exp(ways + xlogy(count, share) + xlog1py(rows - count, -share))
    chance /= chance.sum()
    if made.rule == "alpha":
        allowed = level * (rows + 1) * (1 + TIE_TOLERANCE) - made.bound
        return float(chance @ (size * count <= allowed))
    if made.confidence is None:
        level, stake = design(rows, level, made.bound)
        stakes = np.array([stake])
    else:
        error = 1 - made.confidence
        stakes, log_shares = bettors(Constraint("loss", level, made.bound), rows, error)
    sizes = np.append(0.0, points.loss)[:, None]
    added = np.log(np.maximum(factors(sizes, 1.0, 1.0, level, stakes, made.bound), TINY))
    harm = points.share @ (added[1:] - added[0]) / max(share, TINY)
    logs = rows * added[0] + np.outer(count, harm)
    if made.confidence is not None:
        return float(chance @ certified(logs, log_shares, error))
    shares = np.exp(np.minimum(logs[:, 0], 0.0))
    return float(chance @ shares) if made.safe_risk <= level * (1 + TIE_TOLERANCE) else 0.0


def _variance(values: Floats, shares: Floats) -> float:
    return float(np.cov(values, aweights=shares, ddof=0))


# ---- what to expect ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Points:
    """Points that stand for the rows of a log: a problem in memory, and the share of each point."""

    problem: Problem
    share: Floats
    loss: Floats
    ratio: Floats

    def expect(self, made: Plan, rows: int) -> tuple[float, float]:
        """Log beta and the share of decisions that change, if the rows are exactly the points."""
        weighted = self._weighted(len(self.share))
        if made.rule == "alpha":
            most = min(weighted.max_ratio, self._largest_ratio(rows))
            posed = replace(self._weighted(rows), max_ratio=most)
            log_beta = min(search(posed).largest().values())
        else:
            counted = Rows({**self.problem.rows.columns, "count": rows * self.share})
            t = candidates(self.problem)
            unit = weighted.kernel.log_unit(weighted, t)
            weights = Weights(replace(self.problem, rows=counted), t, unit, unit)
            if made.confidence is None:
                log_beta = find_chain(weights, 0.5, rows=rows)[0].log_beta
            else:
                log_beta = min(certify(weights, rows, made.confidence).values())
        measured, _ = measure(replace(weighted, test_weight="none"), log_beta)
        return log_beta, round(measured.changed, 12)

    def _weighted(self, rows: int) -> Problem:
        """The problem in which the points weigh as much as so many rows."""
        block = self.problem.rows.columns
        with np.errstate(divide="ignore"):
            log_mix = block["log_safe"] - np.log(rows * self.share)
        return replace(self.problem, rows=Rows({**block, "log_mix": log_mix}), drawn=None)

    def _largest_ratio(self, draws: int) -> float:
        """The largest ratio to expect among so many draws of the optimized policy."""
        order = np.argsort(-self.ratio)
        weight = self.share[order] * np.exp(self.ratio[order] - self.ratio.max())
        place = int(np.searchsorted(np.cumsum(weight) / weight.sum(), 1 / (draws + 1)))
        return float(np.exp(min(self.ratio[order][place], LARGEST_LOG)))


def _points(
    log: Log,
    proposals: Proposals | None,
    family: str,
    test_weight: str | None,
    constraint: Constraint,
    share: Floats | None,
    safe_risk: float | None,
) -> _Points:
    """The rows of a log, of many only some, with their shares as the safe policy would act.

    Harmful points count more, or less, so that their mean loss is the safe risk, or that of all.
    """
    if not log.log_optimized.max() > -np.inf:
        raise ValueError(
            "log_optimized is -inf in every row: the log has no action of the optimized policy, so "
            "it does not show what this policy costs; plan without a log, from safe_risk="
        )
    problem, _ = pose(
        log, proposals, find_family(family), test_weight, DEFAULT_BLEND, (constraint,)
    )
    every = problem.rows.columns
    some = np.unique(np.linspace(0, len(log) - 1, min(len(log), MOST_POINTS)).astype(int))
    if share is None:
        log_share = every["log_safe"] - every.get("log_mix", every["log_safe"])
        share = np.exp(log_share - log_share.max())
    losses = constraint.loss(every)
    goal = np.average(losses, weights=share) if safe_risk is None else safe_risk
    dropped = ("log_mix", "log_logged", "log_base_limit", "base_")
    block = {name: each[some] for name, each in every.items() if not name.startswith(dropped)}
    loss, share = losses[some], share[some] / share[some].sum()
    if variance := _variance(loss, share):
        away = loss - share @ loss
        share = share * np.maximum(1 + (goal - share @ loss) / variance * away, 0.0)
    ratio = block["log_optimized"] - block["log_safe"]
    return _Points(replace(problem, rows=Rows(block)), share / share.sum(), loss, ratio)


def _log_of(safe_risk: float, optimized_risk: float, bound: float) -> tuple[Log, Floats]:
    """Points of losses 0 or the bound, normal log ratios in each of them, and shares of the points.

    Nothing is known of the largest ratio.
    """
    density = np.exp(-(STANDARD_SCORES**2) / 2)
    density /= density.sum()
    harmful = np.array([safe_risk, optimized_risk]) / bound
    own, goal = np.stack((1 - harmful, harmful), axis=1)
    mean = np.log(np.maximum(goal, 1e-12) / np.where(own > 1e-12, own, np.maximum(goal, 1e-12)))
    ratio = STANDARD_SCORES - math.log(density @ np.exp(STANDARD_SCORES))
    loss = np.repeat([0.0, bound], len(density))
    log = Log(loss, np.zeros(len(loss)), np.add.outer(mean, ratio).ravel(), max_ratio=1e300)
    return log, np.outer(own, density).ravel()
