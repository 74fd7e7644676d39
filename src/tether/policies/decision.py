"""From a table to a decision in one call, in the user's words; and the same again next month.

`decide` reads a table of what was done, what it cost and with what probability, and calibrates how
far a new policy may be followed. Its result holds the calibration and both policies, so it serves,
and `Decision.next` pools the months that follow.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import files
from tether._core.arrays import Contexts, Floats, Frame, plain_array
from tether._core.words import Described, Description
from tether.control import calibration as words
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration, LossResult
from tether.control.log import Log
from tether.control.plan import plan
from tether.policies.decision_rows import Month, Question, pooled_log, recorded_policy
from tether.policies.logs import make_log, make_proposals
from tether.policies.policy import Policy, PolicyLike, is_finite
from tether.policies.propensities import compare_with_policy
from tether.policies.tethered import Decided, Tethered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CALIBRATION, QUESTION, ROWS = "calibration.json", "question.json", "rows.npz"
"""The files of a saved decision."""
DRAWS_PER_ROW = 16
"""Draws of each policy in each context, where actions cannot be listed."""
ALREADY_SAID = ("decisions that change", "risk")
"""Facts of a calibration that the first sentence of a decision has."""
STEPS_OF_PROMISE = 6
"""How often an interval is halved to find the smallest promise that a plan expects to pass."""


@dataclass(frozen=True)
class Decision(Described):
    """How far to follow a new policy: the calibration, both policies, and what to say of it.

    Parameters
    ----------
    calibration : Calibration
        Beta, the promise, the gain and what they rest on.
    old : Policy or None
        The policy of today; None where only its propensities are known.
    new : Policy
        The new policy.
    question : Question
        The columns and numbers that were asked with.
    months : tuple of Month
        The rows that were used, month by month.
    advice : str
        Where nothing is served: what would help, with numbers.
    """

    calibration: Calibration
    old: Policy | None
    new: Policy
    question: Question
    months: tuple[Month, ...] = field(repr=False)
    advice: str = ""

    @property
    def policy(self) -> Tethered:
        """The policy to serve: between the old one and the new one, as far as was calibrated."""
        if self.old is None:
            raise TypeError(
                "old is not known: of the old policy the table has propensities in contexts that "
                "do not repeat. Pass it as decide(…, old=…) to serve what was calibrated"
            )
        return Tethered(self.old, self.new, self.calibration)

    def decide(self, contexts: Contexts | Frame, rng: np.random.Generator) -> Decided:
        """Take an action in each context, with its propensity, in one pass of either model.

        Parameters
        ----------
        contexts : array-like or frame
            The contexts, or a frame with the columns that `decide` was given.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        Decided
            Actions and propensities; record both for the next month.
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
        new : classifier, function or Policy, optional
            The next new policy, not trained on any of these rows; by default the same.
        promise : float or mapping, optional
            The next promise; by default the same.

        Returns
        -------
        Decision
            The next decision.
        """
        if self.old is None or not is_finite(self.old):
            raise TypeError(
                "next needs the old policy, over finitely many actions: pass old= to decide, or "
                "use tether.Controller, which keeps what every policy did"
            )
        question = self.question if promise is None else replace(self.question, promise=promise)
        served = self.policy
        month = replace(question.read(frame), policy=served)
        recorded = question.propensities(frame, finite=True)
        if recorded is not None:
            compare_with_policy(recorded, served.log_prob(month.contexts, month.actions))
        chosen = self.new if new is None else question.as_policy(new, np.asarray(self.old.actions))
        return _made(question, self.old, chosen, (*self.months, month))

    def plot(self) -> Figure:
        """Draw gain against expected loss for the old, the served and the new policy."""
        return self.calibration.plot()

    def details(self) -> str:
        """Describe everything that is known, in words."""
        return f"{self}\n\n{self.calibration.details()}"

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the calibration, both policies and the rows to a folder that `load` reads.

        Parameters
        ----------
        folder : str or pathlib.Path
            A folder; it is made if there is none.
        overwrite : bool, default False
            Whether to replace a decision that is there.

        Raises
        ------
        CannotSaveError
            If a policy has no form on disk, such as a function defined in a notebook.
        """
        from tether.saving import save_policy

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self.calibration.save(place / CALIBRATION, overwrite=overwrite)
        served = [month.policy for month in self.months if month.policy is not None]
        for name, policy in {"old": self.old, "new": self.new}.items():
            if policy is not None:
                save_policy(policy, place / f"{name}.tether", overwrite=overwrite)
        for number, policy in enumerate(served):
            save_policy(policy, place / f"served_{number}.tether", overwrite=overwrite)
        text = json.dumps({**vars(self.question), "advice": self.advice, "served": len(served)})
        files.write_bytes(place / QUESTION, text.encode(), overwrite=overwrite)
        columns = {f"{n}/{name}": c for n, m in enumerate(self.months) for name, c in _columns(m)}
        buffer = io.BytesIO()
        np.savez(buffer, **columns)  # type: ignore[arg-type]
        files.write_bytes(place / ROWS, buffer.getvalue(), overwrite=overwrite)

    def _describe(self) -> Description:
        found, question = self.calibration, self.question
        body = words.describe(found)
        if not found.useful:
            reason = words.why_not_useful(found)
            facts = [("why", reason)] + ([("what would help", self.advice)] if self.advice else [])
            warned = tuple(each for each in found.warnings if each != reason)
            return Description("Keep the old policy.", body.tone, tuple(facts), warnings=warned)
        share = f"{100 * words.share_changed(found):.3g} %"
        parts = [f"Follow the new policy in {share} of the decisions"]
        gain = None if found.gain is None else found.gain.reward
        if gain is not None and gain.difference.mean is not None:
            word = "saving" if question.cost is not None else "gain"
            low, high = gain.difference.lower, gain.difference.upper
            width = f" ± {(high - low) / 2:.2g}" if low is not None and high is not None else ""
            parts.append(f"expected {word} {gain.difference.mean:.3g}{width} per case")
        for each in found.losses.values():
            safe, limit = _amount(each, each.safe_mean), _amount(each, each.promise)
            parts.append(f"{each.name} at most {limit} {words.condition(found)}, {safe} today")
        more = tuple(each for each in body.facts if each[0] not in ALREADY_SAID)
        return replace(body, headline=f"{parts[0]}: {'; '.join(parts[1:])}.", facts=more)


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
    propensity: str | None = None,
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
    and what that cost. What is promised is what `calibrate` promises: with `promise`, the expected
    loss of what is served is at most that on average over logs like this one; with `confidence` as
    well, with this probability over logs.

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
        one action for each, or one row of probabilities (in the order of `actions`); or a policy.
    promise, alpha, confidence
        What may be lost, as in `calibrate`; one of the first two.
    context : str or sequence of str, optional
        The columns that either policy looks at; a single name passes the column itself, a sequence
        a frame. Leave it out only if neither policy looks at anything.
    propensity : str, optional
        The column of the probabilities with which the actions were taken. Needed without `old`;
        beside it they are compared.
    old : classifier, function or Policy, optional
        The old policy. Without it, it is read from the propensities where contexts repeat;
        otherwise what is served is a mix of the two, and `min_propensity` is needed.
    reward, cost : str, optional
        The column of what each action brought, or cost beside the losses; one of the two.
    bound : float or mapping, default 1.0
        The largest possible loss.
    actions : array-like, optional
        All actions; by default those in the table, sorted.
    family : str, optional
        How the two policies become one; clip by default where the old policy is known, else mix.
    min_propensity : float, optional
        A number that no probability of the old policy is below, as in `make_log`.
    seed : int, default 0
        What recorded draws are made from.

    Returns
    -------
    Decision
        What to do, in words; `policy` serves it and `next` decides again.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> table = {"act": rng.random(4000) < 0.3, "p": np.empty(4000), "bad": np.empty(4000)}
    >>> table["p"] = np.where(table["act"], 0.3, 0.7)
    >>> table["bad"] = rng.random(4000) < np.where(table["act"], 0.12, 0.04)
    >>> found = decide(
    ...     table, action="act", loss="bad", propensity="p", new=lambda rows: rows >= 0, promise=0.1
    ... )
    >>> print(found.summary().splitlines()[0][:45])
    Follow the new policy in ...
    """
    if reward is not None and cost is not None:
        raise TypeError(f"give reward or cost, got both: {reward!r} and {cost!r}")
    columns = context if context is None or isinstance(context, str) else list(context)
    losses = loss if isinstance(loss, str) else list(loss)
    question = Question(
        *(action, losses, columns, propensity, reward, cost, promise, alpha, confidence, bound),
        *(family, min_propensity, seed),
    )
    month = question.read(frame)
    listed = np.unique(month.actions) if actions is None else plain_array(actions)
    chosen = question.as_policy(new, listed)
    finite = is_finite(chosen)
    recorded = question.propensities(frame, finite=finite)
    if old is not None:
        safe: Policy | None = question.as_policy(old, listed)
        if recorded is not None:
            assert safe is not None
            compare_with_policy(recorded, safe.log_prob(month.contexts, month.actions))
    elif recorded is None:
        raise TypeError("give propensity (a column) or old (the policy that took the actions)")
    else:
        safe = recorded_policy(month, listed, recorded) if finite else None
    return _made(question, safe, chosen, (month,), recorded)


def load(path: str | Path, **options: Any) -> Any:
    """Read a decision that `Decision.save` wrote, or a policy that `save_policy` wrote.

    The probes of their calibration are checked when they are served.

    Parameters
    ----------
    path : str or pathlib.Path
        The folder of a decision, or the file of a policy.
    **options
        What may be loaded of policies, as in `tether.saving.load_policy`: `allow_imports` and
        `trusted`.

    Returns
    -------
    Decision, Policy or Shortlist
        The decision, with its calibration, policies and rows; or the policy.
    """
    from tether.saving import load_policy

    place = Path(path)
    if place.is_file():
        return load_policy(place, **options)
    if not (place / QUESTION).is_file():
        raise FileNotFoundError(f"path {str(place)!r} holds no saved decision (no {QUESTION})")
    saved = json.loads((place / QUESTION).read_text("utf-8"))
    advice, served = saved.pop("advice"), saved.pop("served")
    question = Question(**saved)
    old = place / "old.tether"
    policies = [
        load_policy(old, **options) if old.is_file() else None,
        load_policy(place / "new.tether", **options),
    ]
    acted = [load_policy(place / f"served_{n}.tether", **options) for n in range(served)]
    columns: list[dict[str, Any]] = [{} for _ in range(served + 1)]
    with np.load(place / ROWS, allow_pickle=False) as stored:
        for name in stored.files:
            number, _, column = name.partition("/")
            columns[int(number)][column] = stored[name]
    months = [_month(*each) for each in zip(columns, [None, *acted], strict=True)]
    found = Calibration.load(place / CALIBRATION)
    return Decision(found, policies[0], policies[1], question, tuple(months), advice)


def _columns(month: Month) -> list[tuple[str, NDArray[Any]]]:
    columns = [("actions", month.actions)]
    columns += [(f"loss/{name}", values) for name, values in month.losses.items()]
    if month.rewards is not None:
        columns.append(("rewards", month.rewards))
    contexts = month.contexts
    if hasattr(contexts, "columns"):
        for name in contexts.columns:
            column = np.asarray(contexts[name])
            columns.append(
                (f"frame/{name}", column.astype(str) if column.dtype == object else column)
            )
    else:
        columns.append(("contexts", np.asarray(contexts)))
    return columns


def _month(columns: dict[str, NDArray[Any]], policy: Policy | None) -> Month:
    named = {n.partition("/")[2]: c for n, c in columns.items() if n.startswith("frame/")}
    contexts: Any = columns.get("contexts")
    if named:
        import pandas

        contexts = pandas.DataFrame(named)
    losses = {n.partition("/")[2]: c for n, c in columns.items() if n.startswith("loss/")}
    return Month(contexts, columns["actions"], losses, columns.get("rewards"), policy)


def _made(
    question: Question,
    old: Policy | None,
    new: Policy,
    months: tuple[Month, ...],
    recorded: Floats | None = None,
) -> Decision:
    """Calibrate on all months, and say what would help where nothing passes."""
    losses: Any = {n: np.concatenate([m.losses[n] for m in months]) for n in question.losses}
    options: dict[str, Any] = {
        name: getattr(question, name)
        for name in ("promise", "alpha", "confidence", "bound", "seed")
    }
    options["spread"] = old is not None  # `policy` draws a beta for each action: less luck
    if len(months) > 1:
        assert old is not None
        log, proposals, family = pooled_log(old, new, months, losses), None, "clip"
    else:
        month = months[0]
        log = make_log(
            *(old, new, month.contexts, month.actions, losses),
            rewards=month.rewards,
            propensities=recorded if old is None else None,
            min_propensity=question.min_propensity,
        )
        proposals = None
        if old is not None and not is_finite(new):
            rng = np.random.default_rng(question.seed)
            proposals = make_proposals(old, new, month.contexts, DRAWS_PER_ROW, rng)
        family = "clip" if old is not None or log.has_tables else "mix"
    found = calibrate(log, proposals, family=question.family or family, **options)
    made = Decision(found, old, new, question, months)
    return made if found.useful else replace(made, advice=_advice(found, log, question))


def _advice(found: Calibration, log: Log, question: Question) -> str:
    """What would help where nothing is served: rows, another promise, or another way."""
    for each in found.losses.values():
        if each.safe_mean - each.safe_error <= each.alpha:
            continue
        estimate = ""
        if found.gain is not None and (new := found.gain.losses[each.name].optimized).known:
            estimate = f" (this log estimates the new policy's at {new})"
        return (
            f"the old policy itself loses {_amount(each, each.safe_mean)} ± "
            f"{_amount(each, each.safe_error)} ({each.name}), more than the "
            f"{_amount(each, each.alpha)} asked for. No promise below today's loss can be made "
            f"from today's log alone{estimate}. To show that the new policy is safer than today, "
            f"release it with a relative guardrail, tether.Release(store, {{{each.name!r}: "
            f"tether.relative(0.01)}})"
        )
    if len(found.losses) > 1 or len(question.losses) > 1 or log.acting is not None:
        return "more rows (tether.plan says how many), or a larger promise"
    (each,) = found.losses.values()
    asked = "promise" if question.promise is not None else "alpha"

    def rows_for(level: float) -> float:
        options: dict[str, Any] = {asked: level, "confidence": question.confidence}
        return plan(log, bound=each.bound, **options).rows_likely

    needed, passing = rows_for(each.alpha), _smallest_promise(rows_for, each, found.rows)
    parts = []
    if math.isfinite(needed) and needed > found.rows:
        parts.append(f"about {needed:,.0f} rows at this promise (there are {found.rows:,})")
    if passing is not None:
        parts.append(f"a promise of {_amount(each, passing)} on another log of {found.rows:,} rows")
    return ", or ".join(parts) or "more rows, or a larger promise"


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
