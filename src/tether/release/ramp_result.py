"""The share of one step, with the bounds and the promise that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tether._core.promises import is_useful
from tether.release.arm_counts import ArmCounts
from tether.release.guardrail import Guardrail


@dataclass(frozen=True)
class GuardrailShare:
    """What one guardrail allows.

    Parameters
    ----------
    guardrail : Guardrail
        The loss and its tolerance.
    old : ArmCounts
        The rows of the old system.
    new : ArmCounts
        The rows of the new system.
    old_bound : float
        The upper bound on the old system's risk.
    new_bound : float
        The upper bound on the new system's risk.
    alpha : float
        What the calibrated risk may be: the guardrail's alpha, or what was found for its promise.
    share : float
        The share that this guardrail allows by itself.
    stability : float
        What choosing the share on these rows may add to alpha in expectation, at most, whatever
        the distribution of losses in [0, bound].
    existence : float
        What is added by logs on which the old system alone does not pass, an estimate.

    Examples
    --------
    >>> counts = ArmCounts(99, 0.0)
    >>> made = GuardrailShare(Guardrail(0.02), counts, counts, 0.01, 0.01, 0.02, 1.0, 0.001, 0.0)
    >>> made.promise
    0.021
    """

    guardrail: Guardrail
    old: ArmCounts
    new: ArmCounts
    old_bound: float
    new_bound: float
    alpha: float
    share: float
    stability: float
    existence: float

    @property
    def promise(self) -> float:
        """The stated bound on the expected loss: alpha, stability and existence together."""
        return min(self.guardrail.bound, self.alpha + self.stability + self.existence)

    def calibrated_risk(self, share: float) -> float:
        """Return the bound on the risk if the new system had a share.

        Parameters
        ----------
        share : float
            A share from 0 to 1.

        Returns
        -------
        float
            (1 − share)·old_bound + share·new_bound.
        """
        return (1 - share) * self.old_bound + share * self.new_bound


@dataclass(frozen=True)
class RampShare:
    """The share of keys that the new system may answer in the next step.

    Without a confidence: the expected loss of the next step is at most `promise`, in expectation
    over the rows of all logs, those included on which nothing is promised. With a confidence: with
    at least this probability, the expected loss is at most alpha, for every guardrail and at every
    step of the release at once.

    Parameters
    ----------
    share : float
        The new system's share of the keys, from 0 to 1: the smallest that a guardrail allows.
    guardrails : mapping of str to GuardrailShare
        What each guardrail allows, by name.
    binding : str
        The guardrail that allows the least.
    reason : str
        Why the share is 0; empty otherwise.
    confidence : float, optional
        The probability of a promise that holds at all steps at once.

    Examples
    --------
    >>> from tether.release import ramp_share
    >>> made = ramp_share(
    ...     {"complaint": Guardrail(0.02)},
    ...     old={"complaint": ArmCounts(2000, 20.0)},
    ...     new={"complaint": ArmCounts(100, 3.0)},
    ... )
    >>> print(made)
    share 0.327: in expectation, complaint ≤ 0.021 (alpha 0.02); limited by 'complaint'
    """

    share: float
    guardrails: Mapping[str, GuardrailShare]
    binding: str
    reason: str = ""
    confidence: float | None = None

    @property
    def promises(self) -> dict[str, float]:
        """The stated bound of each guardrail; the bound of the loss where nothing is promised."""
        return {
            name: each.guardrail.bound if self.reason else each.promise
            for name, each in self.guardrails.items()
        }

    @property
    def useful(self) -> bool:
        """Whether keys go to the new system under promises that say something."""
        return self.share > 0 and all(
            is_useful(each.promise, each.guardrail.tolerated, each.guardrail.bound)
            for each in self.guardrails.values()
        )

    def why(self, window: str, worst: str) -> str:
        """Say what decided the share, in words, and how many outcomes were missing.

        Parameters
        ----------
        window : str
            The calibration window, such as "step 3".
        worst : str
            What the share is without any rows of the new system.

        Returns
        -------
        str
            The words.
        """
        if self.reason:
            return self.reason
        each = self.guardrails[self.binding]
        bound, old = each.guardrail.bound, each.old
        decided = worst
        if self.confidence is not None:
            rows = "all rows so far"
            if each.new.pending:
                rows += f", {each.new.rows:,} of the new{each.new.missing_text(bound)}"
            decided = f"{rows}{self._limited}"
        elif each.new.rows:
            rows = f"{each.new.rows:,} rows of {window}{each.new.missing_text(bound)}"
            decided = f"{rows}{self._limited}"
        if not old.pending:
            return decided
        return f"{decided}; {old.rows:,} rows of the old{old.missing_text(bound)}"

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values.

        Returns
        -------
        dict
            Numbers, strings and dictionaries of them, as `json.dumps` accepts them.
        """
        return asdict(self) | {"promises": self.promises}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RampShare:
        """Convert back from what `to_dict` returned.

        Parameters
        ----------
        content : mapping
            What `to_dict` returned, or what JSON made of it.

        Returns
        -------
        RampShare
            An equal one.
        """
        guardrails = {
            name: GuardrailShare(
                **{
                    **each,
                    "guardrail": Guardrail(**each["guardrail"]),
                    "old": ArmCounts(**each["old"]),
                    "new": ArmCounts(**each["new"]),
                }
            )
            for name, each in content["guardrails"].items()
        }
        names = ("share", "binding", "reason", "confidence")
        return cls(guardrails=guardrails, **{name: content[name] for name in names})

    def __str__(self) -> str:
        if self.reason:
            return f"share 0: {self.reason}; nothing is promised"
        kind = "in expectation"
        if self.confidence is not None:
            kind = f"with probability {self.confidence:g} at all steps"
        stated = ", ".join(
            f"{name} ≤ {each.promise:.3g} (alpha {each.alpha:.3g})"
            for name, each in self.guardrails.items()
        )
        return f"share {self.share:.3g}: {kind}, {stated}{self._limited}"

    @property
    def _limited(self) -> str:
        """Which guardrail keeps the share below 1, if one does."""
        return f"; limited by {self.binding!r}" if self.share < 1 else ""
