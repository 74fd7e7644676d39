"""The result of calibration: how far, what is promised, and how much to trust it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core import records
from tether._core.arrays import Floats, within_limit
from tether._core.promises import is_useful
from tether._core.words import Columns, Described, Description
from tether.control.chain import Chain
from tether.control.checks import is_refuted
from tether.control.engine import Measured
from tether.control.gains import Gain
from tether.control.log import Probes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HARDLY_CHANGED = 1e-3  # who changes a smaller share of decisions is in practice the safe policy
WORTH_SAYING = 0.05  # a term of the promise that is a smaller share of it changes no decision
MIN_EFFECTIVE_ROWS = 30.0  # a smaller effective sample size than this is worth a warning
ASSUMPTIONS = (
    "the safe policy took the logged actions (or the policies that the log names); the optimized "
    "policy was not trained on these rows; new contexts are like the logged ones; every loss is "
    "between 0 and its bound; each log-probability is that of the policy as it samples"
)
ON_AVERAGE = "on average over logs like this one"  # the condition of a promise in expectation


@dataclass(frozen=True)
class PromiseTerms:
    """The terms of a promise on one expected loss; `tether.control.promise` derives them.

    Examples
    --------
    >>> terms = PromiseTerms(0.1, stability=0.02, safe_excess=0.003, unforeseen=0.0, bound=1.0)
    >>> round(terms.total, 6), PromiseTerms(0.1, 3.0, 0.0, 0.0, bound=1.0).total
    (0.123, 1.0)
    """

    alpha: float  #: What was tolerated.
    stability: float  #: What choosing beta on the log may add: max(α, B − α)·ε.
    safe_excess: float  #: What logs on which no beta passes may add: an estimate of E[(m − α)₊].
    unforeseen: float  #: What actions that no draw foresees may add.
    bound: float  #: The largest possible loss, which the total never exceeds.

    @property
    def total(self) -> float:
        """The stated upper bound on the expected loss."""
        return min(self.bound, self.alpha + self.stability + self.safe_excess + self.unforeseen)

    @property
    def added(self) -> list[tuple[float, str]]:
        """What is added to alpha, and why."""
        return [
            (self.stability, "beta was chosen on this log"),
            (self.safe_excess, "on some logs no beta passes"),
            (self.unforeseen, "no draw foresees some actions: more proposals help"),
        ]

    def __str__(self) -> str:
        parts = [f"{v:.2g} ({why})" for v, why in self.added if v > 1e-6 * self.alpha]
        return " + ".join([f"{self.alpha:.4g} (alpha)", *parts])


@dataclass(frozen=True)
class LossResult:
    """What a calibration says of one loss."""

    name: str
    alpha: float  #: What was asked for: the tolerated expected loss, or the promise.
    bound: float  #: The largest possible loss.
    ratio_error: float  #: The factor by which every weight may be wrong, in either direction.
    log_beta: float  #: Log of the largest beta that this loss allows by itself.
    risk: float  #: The calibrated risk at the beta that is served.
    safe_mean: float  #: The safe policy's mean loss on the log.
    safe_error: float  #: The standard error of that mean.
    terms: PromiseTerms | None  #: What the promise is made of, where it is a sum of terms.
    promise: float  #: What the expected loss is at most; the bound where nothing is promised.
    log_betas: Floats  #: Log betas, for the curve of the calibrated risk.
    risks: Floats  #: The calibrated risk at each of them.

    @property
    def safe_in_words(self) -> str:
        """The safe policy's mean loss on the log, with its standard error."""
        return f"{self.safe_mean:.4g} ± {self.safe_error:.2g}"

    def is_clearly_above(self, limit: float) -> bool:
        """Whether the safe policy's mean loss is above a limit by more than chance explains."""
        return self.safe_mean - 2 * self.safe_error > limit


@dataclass(frozen=True, eq=False)
class Calibration(records.Saved, Described):
    """How far the optimized policy may go, what is promised, and how much to trust it.

    `beta` is 0 when nothing passes, which means: serve the safe policy; and inf when the optimized
    policy passes as it is. Everything is a plain number: a saved calibration has all of it.

    Examples
    --------
    >>> import tether
    >>> found = tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)
    >>> found.exists, found.promise < 0.2
    (True, True)
    """

    #: "alpha", "promise" or "confidence": what was asked for, and so what the promise means.
    rule: str
    #: Log of beta, exact where beta itself would overflow.
    log_beta: float
    family: str  #: The name of the family that is served.
    #: The share of the safe policy in an optimized one that never takes some actions by itself.
    blend: float
    losses: dict[str, LossResult]  #: What is known of every loss.
    rows: int  #: The number of rows of the log.
    contextual: bool  #: Whether the log has contexts.
    #: The probability over logs with which the promise holds, where it is not in expectation.
    confidence: float | None
    measured: Measured  #: What the rows say at beta.
    #: With `promise`, the betas that may be served, their shares and what was drawn.
    chain: Chain | None = None
    #: What the calibration buys, if the log has rewards or tables of all actions.
    gain: Gain | None = None
    #: What is known of the policies that were scored; whatever serves the calibration checks it.
    probes: Probes | None = None
    #: What a careful reader would want to know before deploying, in words.
    warnings: tuple[str, ...] = ()

    @property
    def beta(self) -> float:
        """The control parameter to deploy with: 0 is the safe policy, inf the optimized one."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    @property
    def exists(self) -> bool:
        """Whether any beta passes; if none does, only the safe policy is served."""
        return self.log_beta > -np.inf

    @property
    def binding(self) -> LossResult:
        """The loss that stops beta first."""
        return min(self.losses.values(), key=lambda each: each.log_beta)

    @property
    def promise(self) -> float:
        """What the expected loss of the binding constraint is at most; B where none is promised."""
        return self.binding.promise

    @property
    def useful(self) -> bool:
        """Whether the result can be acted on.

        A beta passes, each promise is worth stating (not near the bound, nor more than twice what
        was asked for), the log contains what the tethered policy does, and more than a thousandth
        of the decisions change.
        """
        return not why_not_useful(self)

    @property
    def statement(self) -> str:
        """The promise in one sentence, with its condition."""
        if not self.exists:
            return "none: no beta passes, so only the safe policy is served"
        parts = []
        for each in self.losses.values():
            named = f" ({each.name})" if len(self.losses) > 1 or each.name != "loss" else ""
            limit = f"{each.promise:.4g}{_if_safe(self.chain, each)}"
            parts.append(f"the expected loss{named} of the next action is at most {limit}")
        statement = f"{condition(self)}, {' and '.join(parts)}"
        if self.chain is not None:
            statement += "; the number of rows was fixed beforehand"
            if self.chain.looks > 1:
                statement += f", and {self.chain.looks} looks at these rows are counted"
        return statement if self.useful else f"no useful promise: {statement}"

    def plot(self) -> Figure:
        """Draw what is gained against what it costs, and the calibrated risk along beta.

        The first panel has the expected reward and loss of the safe, tethered and optimized policy
        with their intervals, and what was asked for as a line. Needs the extra `plot`.
        """
        from tether.view.figures import plot_calibration

        return plot_calibration(self)

    def to_frame(self) -> Columns:
        """Return the risk curves of all losses: columns `loss`, `log_beta`, `beta` and `risk`."""
        every = list(self.losses.values())
        log_betas = np.concatenate([each.log_betas for each in every])
        with np.errstate(over="ignore"):
            return Columns(
                loss=np.repeat([each.name for each in every], [len(e.risks) for e in every]),
                log_beta=log_betas,
                beta=np.exp(log_betas),
                risk=np.concatenate([each.risks for each in every]),
            )

    def details(self) -> str:
        """Describe everything that is known, in words."""
        return describe(self, every=True).text()

    def _describe(self) -> Description:
        return describe(self)


# ---- what a careful reader would want to know ---------------------------------------------------


def why_not_useful(found: Calibration) -> str:
    """Why a result cannot be acted on, in words; empty where it can."""
    if not found.exists:
        return "no beta passes"
    if is_refuted(found.warnings):
        return next(each for each in found.warnings if is_refuted([each]))
    if not found.measured.covered:
        return (
            f"nothing useful is promised: the log contains only {found.measured.coverage:.1%} of "
            f"what this policy does (by chance at most {found.measured.coverage_limit:.1%}). The "
            f"log's policy never takes the rest, rows are missing, or probabilities are wrong"
        )
    for each in found.losses.values():
        most = min(each.safe_mean, each.promise)
        if found.chain is not None and not within_limit(most, each.alpha):
            return _too_unsafe(found, each)
        if not is_useful(each.promise, each.alpha, each.bound):
            return (
                f"no useful promise: the expected loss{_of(found, each)} is promised to be at most "
                f"{each.promise:.4g}, where {each.alpha:.4g} was asked for and no loss exceeds "
                f"{each.bound:g}; collect rows (tether.plan says how many), or ask for more"
            )
    if found.measured.changed < HARDLY_CHANGED and np.isfinite(found.log_beta):
        return (
            f"in practice the safe policy: {100 * found.measured.changed:.2g} % of the decisions "
            f"change. Collect rows, or ask for more, to use more of the optimized policy"
        )
    return ""


def all_warnings(found: Calibration, looks: int) -> tuple[str, ...]:
    """The warnings of a result, and what else changes a decision."""
    said = [*found.warnings]
    if looks > 1 and found.rule == "alpha":
        said.append(
            f"this is look {looks} at these rows, for which no term of the promise pays: choose on "
            f"training rows (tether.choose), and calibrate once"
        )
    for each in found.losses.values():
        said += _warnings_of(found, each)
    if found.chain is not None and not found.exists and found.chain.shares[0] > 0:
        said.append(
            f"the safe policy serves by the luck of the draw: the log allowed more with "
            f"probability {found.chain.shares[0]:.3g}, and {found.chain.uniform:.3g} was drawn"
        )
    if found.exists:
        said += [why] if (why := why_not_useful(found)) else []
        if (size := found.measured.effective_sample_size) < MIN_EFFECTIVE_ROWS:
            said.append(f"the effective sample size is {size:.1f}: beta rests on few rows")
    return tuple(dict.fromkeys(said))


def _warnings_of(found: Calibration, loss: LossResult) -> Iterator[str]:
    """What one loss says; each sentence names it where there are several."""
    of, chain, terms = _of(found, loss), found.chain, loss.terms
    none = chain is None and not found.exists and loss.log_beta == -np.inf
    level = loss.alpha if chain is None else chain.levels[loss.name]
    if level <= 0:
        yield (
            f"{found.rows} rows are too few for a promise of {loss.alpha:g}{of}. Collect more than "
            f"{math.ceil(loss.bound / loss.alpha)} of them (tether.plan says how many)"
        )
    elif (chain is not None or none) and not within_limit(loss.safe_mean, loss.alpha):
        yield _too_unsafe(found, loss)
    elif chain is not None and loss.safe_mean > level:
        limit = chain.risk_limit(loss.name, loss.safe_mean)
        if f"{limit:.3g}" != f"{loss.alpha:.3g}":
            yield (
                f"the safe policy's own mean loss{of} is {loss.safe_in_words}, above {level:.4g}, "
                f"the level up to which {loss.alpha:g} is promised: if that is its risk, the "
                f"expected loss is at most {limit:.4g}. Rows raise the level; safe_risk= sets it"
            )
    elif none:
        yield (
            f"no beta passes: {found.rows} rows do not show that any is within alpha = "
            f"{loss.alpha:g} (the safe policy's mean loss{of} is {loss.safe_in_words}, its "
            f"calibrated risk {loss.risk:.4g}); collect rows (tether.plan says how many)"
        )
    elif found.exists and terms is not None and max(terms.added)[0] > WORTH_SAYING * loss.promise:
        yield f"the promise{of} is more than what was asked for: {terms}"


def _too_unsafe(found: Calibration, loss: LossResult) -> str:
    """What would help where the safe policy itself loses more than was asked for."""
    helps = "not help" if loss.is_clearly_above(loss.alpha) else "help only if this is chance"
    text = (
        f"the safe policy's own mean loss{_of(found, loss)} is {loss.safe_in_words}, above the "
        f"{loss.alpha:.4g} asked for: more rows will {helps}, however safe the optimized policy "
        f"is. First make the safe policy safer and log it, or ask for more than its own loss"
    )
    if loss.safe_mean > loss.bound / 2:
        text += f". Is {loss.bound:g} the harm, and 0 the good outcome?"
    return text


def _of(found: Calibration, loss: LossResult) -> str:
    return f" of {loss.name!r}" if len(found.losses) > 1 else ""


# ---- what printing shows ------------------------------------------------------------------------


def condition(found: Calibration) -> str:
    """For which logs the promise holds, in words."""
    if found.confidence is None:
        return ON_AVERAGE
    return f"with probability {found.confidence:g} over logs"


def _if_safe(chain: Chain | None, loss: LossResult) -> str:
    """The condition of the soft chain, with what the log says of it."""
    if chain is None:
        return ""
    if loss.is_clearly_above(chain.levels[loss.name]):
        return f", taking the safe policy's mean loss of {loss.safe_mean:.4g} for its risk"
    seen = f"{loss.safe_mean:.3g} ± {loss.safe_error:.2g} on this log"
    return f", if the safe policy itself loses at most {chain.levels[loss.name]:.4g} ({seen})"


def describe(found: Calibration, *, every: bool = False) -> Description:
    """What printing a calibration shows: what one decides with, or everything."""
    facts: list[tuple[str, str]] = [("promise", found.statement)]
    measured, several = found.measured, len(found.losses) > 1
    if found.exists:
        facts.append(("decisions that change", f"{100 * found.measured.changed:.3g} %"))
    if found.gain is not None:
        facts += found.gain.facts()
    for each in found.losses.values():
        name = f"risk of {each.name}" if several else "risk"
        limits = several and each is found.binding and found.log_beta < np.inf
        safe = f"the safe policy's is {each.safe_in_words}"
        if found.chain is None:  # the soft chain does not look at the risk of what was drawn
            safe = f"{each.risk:.4g} calibrated, {each.alpha:.4g} asked for; {safe}"
        facts.append((name, f"{safe}{'; limits beta' if limits else ''}"))
        if every and each.terms is not None and found.exists:
            facts.append(("made of", str(each.terms)))
    worth = f"{found.rows:,} rows, worth {measured.effective_sample_size:,.1f} at this beta"
    facts.append(("log", f"{worth}; {'' if found.contextual else 'no '}contexts"))
    if found.family.startswith("budgeted_clip"):
        budget = found.family[14:-1]
        facts.append(("family", f"clip that takes the safe policy's action after {budget} tries"))
    if found.blend:
        facts.append(("blend", f"{found.blend:.3g} of the optimized policy is the safe one"))
    if every:
        facts += _more_facts(found)
    tone = "good" if found.useful else "caution" if found.exists else "stop"
    notes = (f"assumed: {ASSUMPTIONS}",) if every else ()
    return Description(_headline(found), tone, tuple(facts), warnings=found.warnings, notes=notes)


def _headline(found: Calibration) -> str:
    family = f"(family {found.family})"
    if not found.exists:
        return f"beta = 0: serve the safe policy only {family}"
    if np.isinf(found.log_beta):
        policy = "the blend" if found.blend else "the optimized policy"
        return f"beta = inf: {policy} passes as it is {family}"
    size = f"{found.beta:.4g}" if abs(found.log_beta) < 300 else f"exp({found.log_beta:.6g})"
    return f"beta = {size} {family}: 0 is the safe policy, inf the optimized one"


def _more_facts(found: Calibration) -> Iterator[tuple[str, str]]:
    measured, chain, error = found.measured, found.chain, found.binding.ratio_error
    share = f"{measured.max_weight:.3g} of the total"
    yield "largest weight", f"{share}; that of the next action: {measured.test_weight}"
    if measured.acceptance > 0:  # it is known
        draws = f"{1 / measured.acceptance:.3g} proposals per action"
        yield "acceptance", f"{measured.acceptance:.3g}: {draws}"
    if chain is not None:
        drawn = "every action has its own draw" if chain.spread else f"drawn: {chain.uniform:.4g}"
        yield "soft chain", f"{len(chain.shares)} betas; {drawn}"
    if error > 1:
        yield "ratio error", f"every weight may be wrong by a factor of {error:.6g}"
