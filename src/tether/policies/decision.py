"""From a table to a decision in one call, in the user's words; and the same again next month."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import frames
from tether._core.arrays import Contexts, Floats, Frame, plain_array
from tether._core.words import Described, Description
from tether.control import calibration as words
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration, LossResult
from tether.control.checks import is_refuted
from tether.control.gains import WeightedMean
from tether.control.log import Log
from tether.control.plan import plan
from tether.policies.decision_rows import WHOLE, LoggedRows, Question, pooled_log, recorded_policy
from tether.policies.logs import compare_with_policy, make_log, make_proposals, max_ratio_of
from tether.policies.policy import Policy, PolicyLike, is_finite
from tether.policies.tethered import Decided, Tethered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS_PER_ROW = 16
"""Draws of each policy in each context, where actions cannot be listed."""
ALREADY_SAID = ("decisions that change", "risk")
"""Facts of a calibration that the first sentence of a decision has."""
IN_PICTURES = {"safe": "old policy", "tethered": "this decision", "optimized": "new policy"}
"""What a decision calls the points of its picture."""
USERS_WORDS = {
    **{"a safe policy": "an old policy", "an optimized policy": "a new policy"},
    **{"safe policy": "old policy", "optimized policy": "new policy"},
    **{"the safe one": "the old one", "the optimized one": "the new one"},
    **{"; safe_risk= sets it": "", ". If a tethered policy took them, pass it as logged_by": ""},
}
"""What a calibration says, and what a decision says instead."""
STEPS_OF_PROMISE = 6
"""How often an interval is halved to find the smallest promise that a plan expects to pass."""


@dataclass(frozen=True)
class Decision(Described):
    """How far to follow a new policy: the calibration, both policies, and what to say of it.

    Parameters
    ----------
    calibration : Calibration
        Beta, the promise, the gain and what they rest on.
    old, new : Policy
        Both policies; `old` is None where only its propensities are known.
    question, months
        The columns and numbers that were asked with, and the rows, month by month.
    advice : str
        Where nothing is served: what would help, with numbers.
    """

    calibration: Calibration
    old: Policy | None
    new: Policy
    question: Question
    months: tuple[LoggedRows, ...] = field(repr=False)
    advice: str = ""

    @property
    def policy(self) -> Tethered:
        """The policy to serve, as far as was calibrated; the old one where that is not useful."""
        if self.old is None:
            way = f"let new choose in a share of the cases: {self.share}"
            raise TypeError(
                "old is not known: the propensities of the table do not show all of it. "
                f"Pass decide(…, old=…), or {way if self.share else 'go on without new'}"
            )
        return Tethered(self.old, self.new, self.calibration if self.calibration.useful else 0.0)

    @property
    def share(self) -> float | None:
        """With mix: in which share of the cases, drawn at random, the new policy chooses."""
        gain = self.calibration.gain
        return gain.traffic if gain and self.calibration.useful else None

    def decide(self, contexts: Contexts | Frame, rng: np.random.Generator) -> Decided:
        """Take an action in each context, with its propensity, in one pass of either model.

        Contexts may be a frame with the columns that `tether.decide` was given. Record actions and
        `propensities` for the next month.
        """
        return self.policy.decide(self.question.contexts_of(contexts), rng)

    def next(
        self,
        frame: Frame,
        *,
        new: Any = None,
        promise: float | Mapping[str, float] | None = None,
    ) -> Decision:
        """Decide again with the next month's table, in which this decision's policy acted.

        All months are used together. The old policy stays the safe one: the policy that was served
        has spent the promise, so nothing more could be asked for on top of it.

        Parameters
        ----------
        frame : frame
            The next month, with the same columns; propensities, where it has them, are compared
            with those of the policy that was served.
        new, promise : optional
            The next new policy, not trained on any of these rows, and promise; else the same.
        """
        if self.old is None or not is_finite(self.old):
            raise TypeError(
                "next needs the old policy, over finitely many actions: pass old= to decide, or "
                "decide on the rows of all months in which the old policy chose, with its "
                "propensities; tether.Controller keeps what every policy did"
            )
        question = self.question if promise is None else replace(self.question, promise=promise)
        served = self.policy
        month = replace(question.read(frame), policy=served)
        if isinstance(question.propensity, str) and question.propensity in frames.names(frame):
            recorded = question.propensities(frame, len(month.actions), finite=True)
            assert recorded is not None
            compare_with_policy(recorded, served.log_prob(month.contexts, month.actions), "served")
        if new is not None:
            new = question.as_policy("new", new, np.asarray(self.old.actions))
        return _made(question, self.old, new or self.new, (*self.months, month))

    def plot(self) -> Figure:
        """Draw gain against expected loss for the old, the served and the new policy."""
        figure: Any = self.calibration.plot()
        for each in figure.findobj(lambda part: hasattr(part, "set_text")):
            policy, colon, rest = each.get_text().partition(":")
            each.set_text(_in_users_words(IN_PICTURES.get(policy, policy) + colon + rest))
        if (cost := self.question.cost) is not None:
            figure.axes[0].set_ylabel(f"expected {cost} (up is less)")
            figure.axes[0].yaxis.set_major_formatter(lambda height, _: f"{-height:.4g}")
        return figure  # type: ignore[no-any-return]

    def details(self) -> str:
        """Describe everything that is known, in words."""
        return f"{self}\n\n{self.calibration.details()}"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write calibration, policies and rows to a file that `tether.load` reads, or to a folder.

        A `CannotSaveError` says which policy has no form on disk, as a function in a notebook.
        """
        from tether.saving import save_policy
        from tether.saving.save_and_load import in_folder

        if self.old is not None:
            _ = self.policy  # an error where a policy is no longer the one that was calibrated
        save_policy(self, in_folder(path), overwrite=overwrite)

    def _describe(self) -> Description:
        found, question = self.calibration, self.question
        body = words.describe(found)
        if not found.useful:
            refuted = (each for each in found.warnings if is_refuted([each]))
            reason = next(refuted, words.why_not_useful(found))
            facts = [("why", _in_users_words(reason))]
            if self.advice:
                facts.append(("what would help", self.advice))
            more = [each for each in found.warnings if each != reason and not self.advice]
            warned = tuple(map(_in_users_words, more))
            return Description("Keep the old policy.", body.tone, tuple(facts), warnings=warned)
        changed = f"{100 * found.measured.changed:.3g} % of the decisions"
        headline, parts = "Follow the new policy", [f"{changed} change"]
        if self.share is not None and self.share < 1:
            headline = f"Let the new policy choose in {100 * self.share:.3g} % of the cases"
        elif found.log_beta < np.inf or (found.chain is not None and found.chain.shares[-1] < 1):
            headline, parts = f"{headline} in {changed}", []
        gain = None if found.gain is None else found.gain.reward
        if gain is not None and gain.difference.mean is not None:
            mean, word = gain.difference.mean, "gain"
            if question.cost is not None:
                mean, word = abs(mean), "saving" if mean >= 0 else "extra cost"
            low, high = gain.difference.lower, gain.difference.upper
            width = f" ± {(high - low) / 2:.2g}" if low is not None and high is not None else ""
            parts.append(f"expected {word} {mean:.3g}{width} per case")
        for each in found.losses.values():
            safe, limit = _amount(each, each.safe_mean), _amount(each, each.promise)
            parts.append(f"{each.name} at most {limit} {words.condition(found)}, {safe} today")
        kept = {name: text for name, text in body.facts if not name.startswith(ALREADY_SAID)}
        if gain is not None and question.cost is not None:
            old, served = (_negative(each) for each in (gain.safe, gain.tethered))
            kept["reward, estimated"] = f"{served}; the old policy's is {old}"
        quantity = "reward" if question.cost is None else "cost"
        facts = [
            (name.replace("reward", quantity), _in_users_words(text)) for name, text in kept.items()
        ]
        headline, told = f"{headline}: {'; '.join(parts)}.", map(_in_users_words, body.warnings)
        return Description(headline, body.tone, tuple(facts), warnings=tuple(told))


def _in_users_words(text: str) -> str:
    """A text of a calibration, in which policies are called what `decide` calls them."""
    for theirs, ours in USERS_WORDS.items():
        text = text.replace(theirs, ours)
    return text


def _negative(reward: WeightedMean) -> WeightedMean:
    """The cost that was read as a negative reward."""
    if reward.mean is None or reward.lower is None or reward.upper is None:
        return reward
    return replace(reward, mean=-reward.mean, lower=-reward.upper, upper=-reward.lower)


def decide(
    frame: Frame,
    *,
    action: str,
    loss: str | Sequence[str],
    new: Any,
    promise: float | Mapping[str, float] | None = None,
    alpha: float | Mapping[str, float] | None = None,
    confidence: float | None = None,
    context: str | Sequence[str] | None = None,
    propensity: str | float | None = None,
    old: PolicyLike | Callable[[Any], Any] | None = None,
    reward: str | None = None,
    cost: str | None = None,
    bound: float | Mapping[str, float] = 1.0,
    actions: Any = None,
    family: str | None = None,
    min_propensity: float | None = None,
    seed: int = 0,
) -> Decision:
    """Decide from a table how far a new policy may be followed.

    The table has one row per case: what the old policy saw, what it did, with which probability,
    and what that cost. What is promised is what `calibrate` promises.

    Assumed: the rows were not used to train the new policy, the old policy took all of the actions
    with the recorded probabilities, future cases are like those of the table.

    Parameters
    ----------
    frame : frame
        A pandas, polars or Arrow table, or a dictionary of arrays.
    action, loss : str
        The columns of the actions, and of what they cost; several losses as a sequence.
    new : classifier, function or Policy
        The new policy: a fitted scikit-learn classifier; a function of the contexts that returns
        one action for each, a frame of probabilities with a column for each action, or an array of
        them in the order of `actions`; or a policy.
    promise, alpha, confidence
        What may be lost, as in `calibrate`; one of the first two.
    context : str or sequence of str, optional
        The columns that either policy looks at; a single name passes the column itself, a sequence
        a frame. Leave it out only if neither policy looks at anything.
    propensity : str or float, optional
        The column of the probabilities with which the actions were taken, or one number if they
        are all the same. Needed without `old`; beside it they are compared.
    old : classifier, function or Policy, optional
        The old policy. Without it, `family` says what is served.
    reward, cost : str, optional
        The column of what each action brought, or cost beside the losses; one of the two.
    bound : float or mapping, default 1.0
        The largest possible loss.
    actions : array-like, optional
        All actions; by default those in the table. They say what the columns of an array of
        probabilities are.
    family : str, optional
        How the two policies become one. "clip", with `old` or if the rows show all of it by their
        propensities: all actions, or all but one, in every context. Or "mix", in which the new
        policy chooses in a share of the cases; `alpha` needs `min_propensity` then. By default clip
        with `old`, of two actions or with `alpha`, else mix: what the rows happen to show must not
        decide.
    min_propensity : float, optional
        A lower bound on the probabilities of the old policy, as in `make_log`.
    seed : int, default 0
        The seed of the recorded draws.

    Returns
    -------
    Decision
        What to do, in words; `policy` serves it and `next` decides again.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> act = rng.random(4000) < 0.5
    >>> table = {"act": act, "bad": rng.random(4000) < np.where(act, 0.16, 0.04)}
    >>> asked = {"action": "act", "loss": "bad", "propensity": 0.5, "promise": 0.12}
    >>> print(decide(table, new=lambda rows: rows >= 0, **asked).summary()[:45])
    Follow the new policy in ...
    """
    if reward is not None and cost is not None:
        raise TypeError(f"give reward or cost, got both: {reward!r} and {cost!r}")
    columns = context if context is None or isinstance(context, str) else list(context)
    losses = [loss] if isinstance(loss, str) else list(loss)
    every = None if actions is None else plain_array(actions).tolist()
    question = Question(
        *(action, losses, columns, propensity, reward, cost, promise, alpha, bound, confidence),
        *(family, min_propensity, seed, every),
    )
    month = question.read(frame)
    listed = np.unique(month.actions) if every is None else np.asarray(every)
    chosen = question.as_policy("new", new, listed)
    finite = is_finite(chosen)
    recorded = question.propensities(frame, len(month.actions), finite=finite)
    if old is not None:
        given = question.as_policy("old", old, listed)
        return _made(question, given, chosen, (month,), recorded)
    if recorded is None:
        raise TypeError("give propensity (a column) or old (the policy that took the actions)")
    # Which rule is used must not depend on what the rows happen to show.
    clips = finite and (len(listed) == 2 or alpha is not None)
    family = family or ("clip" if clips else "mix")
    question = replace(question, family=family)
    known = recorded_policy(month, listed, recorded) if finite else None
    if family == "mix":
        if known is not None:  # the rows may refute the statement by actions that none of them took
            with _naming_what_is_wrong(question):
                table = known.log_prob_all(month.contexts)
                shown = np.logaddexp(table, np.log(WHOLE))
                max_ratio_of(question.min_propensity, shown, finite=True)
        return replace(_made(question, None, chosen, (month,), recorded), old=known)
    if known is None:
        raise ValueError(
            f"family {family!r} needs all of the old policy, but in some context the propensities "
            f"of the actions that were taken do not add up to 1: two or more actions were not "
            f"taken there, or actions= lacks one. Pass old=, or use family 'mix'"
        )
    return _made(question, known, chosen, (month,))


def _made(
    question: Question,
    old: Policy | None,
    new: Policy,
    months: tuple[LoggedRows, ...],
    recorded: Floats | None = None,
) -> Decision:
    """Calibrate on all months, and say what would help where nothing passes."""
    losses: Any = {n: np.concatenate([m.losses[n] for m in months]) for n in question.losses}
    names = ("promise", "alpha", "confidence", "bound", "seed")
    options: dict[str, Any] = {name: getattr(question, name) for name in names}
    month, proposals, family = months[0], None, question.family or "clip"
    # Less luck than with one beta: `policy` draws one for each action, and mixes of mix are a mix.
    options["spread"] = old is not None or family == "mix"
    with _naming_what_is_wrong(question):
        if old is not None and len(months) > 1:
            log = pooled_log(old, new, months, losses)
        else:
            log = make_log(
                *(old, new, month.contexts, month.actions, losses),
                rewards=month.rewards,
                propensities=recorded,
                min_propensity=question.min_propensity,
            )
        if old is not None and not is_finite(new):
            rng = np.random.default_rng(question.seed)
            proposals = make_proposals(old, new, month.contexts, DRAWS_PER_ROW, rng)
        found = calibrate(log, proposals, family=family, **options)
    made = Decision(found, old, new, question, months)
    if found.useful or is_refuted(found.warnings):
        return made
    return replace(made, advice=_advice(found, log, proposals, question))


@contextmanager
def _naming_what_is_wrong(question: Question) -> Iterator[None]:
    """Raise errors about the rows in the user's words."""
    try:
        yield
    except ValueError as error:
        looks = ". If either policy looks at columns, name them with context="
        hint = "" if question.context else looks
        raise ValueError(f"{_in_users_words(str(error))}{hint}") from error


def _advice(found: Calibration, log: Log, proposals: Any, question: Question) -> str:
    """What would help where nothing is served: rows, another promise, or another way."""
    losses = list(found.losses.values())
    above = [each for each in losses if each.safe_mean > each.alpha]
    each, said, parts = (above or losses)[0], "", []
    safer = None if found.gain is None else found.gain.losses[each.name].optimized
    if above:
        estimate = ""
        if safer is not None and safer.mean is not None:
            limits = " to ".join(_amount(each, end or 0.0) for end in (safer.lower, safer.upper))
            estimate = f"; it estimates the new policy's at {_amount(each, safer.mean)} ({limits})"
            safer = safer if safer.mean < each.safe_mean else None
        said = (
            f"the old policy itself loses {_amount(each, each.safe_mean)} ± "
            f"{_amount(each, each.safe_error)} ({each.name}), more than the "
            f"{_amount(each, each.alpha)} asked for. No promise below today's loss can be made "
            f"from today's log alone{estimate}. What can be had: "
        )
    if len(losses) == 1 and log.log_logged is None and log.log_optimized.max() > -np.inf:
        asked = "promise" if question.promise is not None else "alpha"

        def rows_for(level: float) -> float:
            options: dict[str, Any] = {asked: level, "confidence": question.confidence}
            options |= {"family": found.family, "bound": each.bound}
            return plan(log, proposals, **options).rows_likely

        needed = math.inf if above else rows_for(each.alpha)
        if math.isfinite(needed) and needed > found.rows:
            parts.append(f"about {needed:,.0f} rows at this promise (there are {found.rows:,})")
        if (passing := _smallest_promise(rows_for, each, found.rows)) is not None:
            parts.append(
                f"a promise of {_amount(each, passing)} on another log of {found.rows:,} rows"
            )
    if above and safer is not None:
        parts.append(
            f"a release with a relative guardrail, to show that the new policy is safer than "
            f"today: tether.Release(store, {{{each.name!r}: tether.relative(0.01)}})"
        )
    return said + (", or ".join(parts) or "more rows (see tether.plan), or a larger promise")


def _smallest_promise(
    rows_for: Callable[[float], float], loss: LossResult, rows: int
) -> float | None:
    """The smallest promise that so many new rows are likely to pass; None if there is none."""
    low, high = loss.alpha, loss.bound * (1 - 1e-6)
    if rows_for(high) > rows:
        return None
    for _ in range(STEPS_OF_PROMISE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rows_for(middle) > rows else (low, middle)
    return high


def _amount(loss: LossResult, value: float) -> str:
    """A loss in words: a percentage where it is a share."""
    return f"{100 * value:.3g} %" if loss.bound == 1 else f"{value:.4g}"
