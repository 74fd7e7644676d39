"""A release: a ramp from an old system to a new one, with everything in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, overload

from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.words import AssumptionWarning, PromiseWarning, warn_user
from tether.release.routing import is_routed
from tether.rounds import interventions
from tether.rounds.monitors import Monitors
from tether.rounds.outage import Unavailability
from tether.rounds.recording import Recorder
from tether.rounds.releases.assigning import RELEASE_FALLBACKS, Assigner
from tether.rounds.releases.beginning import StepKeeper, open_release, open_store
from tether.rounds.releases.given_settings import DEFAULT_RELEASE_SILENCE, given_settings
from tether.rounds.releases.key_rows import (
    Key,
    is_one_key,
    key_content,
    listed_keys,
    tune_for_keys,
)
from tether.rounds.releases.observing import ObservedKeys, observe_keys, skipped_text
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.release_history_reader import read_release
from tether.rounds.releases.release_settings import GuardrailLike, Log, ReleaseSettings
from tether.rounds.releases.step import Step
from tether.rounds.store.chain_signer import chain_signer
from tether.rounds.store.deadline import DEADLINE_SECONDS
from tether.rounds.stored_run import StoredRun

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey


class Release(StoredRun[ReleaseSettings]):
    """Ramps a new system up, step after step, so that each expected loss stays within its alpha.

    Promised: what `ramp_share` promises, for every step. Assumed: keys are alike, losses lie in
    [0, bound], and the length of a step is decided when it begins. One row is one key and system:
    the first unit of the key that the system answered.

    An alarm sends all keys to the old system until `resume`, and then the ramp begins anew; it is
    raised when the mean loss of a step is shown to exceed its `alarm_risk`, when losses stop
    arriving, or by hand.

    Parameters
    ----------
    store : str or pathlib.Path
        Where the release is kept: a path (SQLite) or the URL of an SQLite or PostgreSQL database.
        A new release is created if there is none; an existing one continues.
    guardrails : mapping, optional
        What is tolerated of each loss, by name: the expected loss, between 0 and 1; a pair of that
        and the largest possible loss; or a `Guardrail`. May be left out if the release exists; then
        it is opened with the settings that it has.
    old : mapping of str to array-like or ArmCounts, optional
        Losses of the old system from before the release, one for each key, for every guardrail; NaN
        where one is not known. Without them the first step has a share of 0, and its rows are used.
    promise : bool, default False
        Whether the numbers in `guardrails` are what the whole promise may be, all terms included,
        instead of alpha.
    confidence : float, optional
        Promise alpha with this probability at all steps simultaneously, instead of in expectation.
    keys_per_step : int, optional
        A step ends after so many rows.
    step_duration : float or datetime.timedelta, optional
        Instead: a step ends after so many seconds, at least one. With neither, steps end by
        `advance`.
    wait : int, default 0
        How many steps after its end the rows of a step are used, if losses take a while.
    alarm_risk : mapping of str to float, optional
        The risk above which a monitor raises an alarm, by guardrail; by default the smaller of 1.5
        times alpha and the midpoint of alpha and the bound.
    false_alarm_probability : float, default 0.05
        For each monitor, the probability that it ever raises a false alarm.
    max_silence : int, datetime.timedelta or None, default 10,000
        How many rows, or how much time, without one of the losses raise an alarm.
    salt : bytes, optional
        What keys are hashed with, 1 to 64 bytes; random by default.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.
    fallback : {"old"}, optional
        What answers when the store does not answer within the deadline: with "old" the old system,
        for these keys, and nothing is stored of it. By default an error. With it `observe` needs
        the system. Assumed: outages do not depend on losses.
    signing_key : str, pathlib.Path or Ed25519PrivateKey, optional
        The private key that signs every step, alarm and act, and with them all rows before.

    Raises
    ------
    ValueError
        If an argument is invalid, the store was created with other settings, or it holds something
        else.
    StoreError
        If the store cannot be opened.

    Examples
    --------
    >>> import tether
    >>> release = tether.Release(
    ...     "sqlite://", guardrails={"complaint": 0.02}, old={"complaint": [0.0] * 990 + [1.0] * 10}
    ... )
    >>> release.share
    0.009...
    >>> system = release.assign("ann")
    >>> release.observe("ann", {"complaint": 0.0})
    1
    >>> release.advance().number
    2
    """

    _when_due: Callable[[], None] | None = None
    """What is told that a step is over, where something else begins the next one."""

    def __init__(
        self,
        store: str | Path,
        guardrails: Mapping[str, GuardrailLike] | None = None,
        *,
        old: Log | None = None,
        promise: bool = False,
        confidence: float | None = None,
        keys_per_step: int | None = None,
        step_duration: float | timedelta | None = None,
        wait: int = 0,
        alarm_risk: Mapping[str, float] | None = None,
        false_alarm_probability: float = 0.05,
        max_silence: int | timedelta | None = DEFAULT_RELEASE_SILENCE,
        salt: bytes | None = None,
        deadline: float = DEADLINE_SECONDS,
        fallback: str | None = None,
        signing_key: PrivateKey | None = None,
    ) -> None:
        if fallback is not None:
            validate.choice("fallback", fallback, RELEASE_FALLBACKS)
        given = given_settings(
            guardrails,
            old=old,
            promise=promise,
            confidence=confidence,
            keys_per_step=keys_per_step,
            step_duration=step_duration,
            wait=wait,
            alarm_risk=alarm_risk,
            false_alarm_probability=false_alarm_probability,
            max_silence=max_silence,
            salt=salt,
        )
        sign = None if signing_key is None else chain_signer(signing_key)
        free = tuple(name for name, each in (("salt", salt), ("log", old)) if each is None)
        self._store = open_store(store, given, deadline=deadline, sign=sign)
        try:
            tune_for_keys(self._store)
            self.settings = open_release(self._store, given, free, self._tell)
            monitors = Monitors(self.settings)
            self._recorder = Recorder(self._store, monitors)
            self._steps = StepKeeper(self._store, self.settings, monitors)
            self._outage = (
                None
                if fallback is None
                else Unavailability(self._store, memory=self._when_due is None)
            )
            self._assigner = Assigner(
                self._store,
                self.settings,
                self._recorder,
                self._steps,
                self._outage,
                self._when_due,
            )
            self._recorder.catch_up()
        except BaseException:
            self._store.close()
            raise

    def _tell(self, doubt: str) -> None:
        """Say what is doubtful about a new release."""
        warn_user(doubt, PromiseWarning)

    @overload
    def assign(self, keys: Key) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def assign(self, keys: Iterable[Key]) -> list[str]: ...

    def assign(self, keys: Key | Iterable[Key]) -> str | list[str]:
        """Say which system answers each key, and store it before it is returned.

        A key that comes back has the same answer, and stays with the new system while the share
        grows. While an alarm stands it is "old" for all. A step that is over, or an alarm that was
        cleared, begins the next step.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of them
            One key or many: users, sessions, devices. An integer is the same key as its digits.

        Returns
        -------
        str or list of str
            "old" or "new", one for each key.

        Raises
        ------
        ValueError
            If a key is empty, too long or no text.
        StoreError
            If it could not be stored; with fallback="old" the answer is "old" instead, without a
            row, for the keys that could not be.
        """
        systems = self._assigner.assign(listed_keys(keys))
        return systems[0] if is_one_key(keys) else systems

    @overload
    def routes(self, keys: Key, probabilities: float) -> bool: ...

    @overload
    def routes(self, keys: Iterable[Key], probabilities: ArrayLike) -> list[bool]: ...

    def routes(self, keys: Key | Iterable[Key], probabilities: ArrayLike) -> bool | list[bool]:
        """Say whether a router lets the new system answer keys that are assigned to "new".

        What the release ramps up is then the routed pair: the new system with the given
        probability, otherwise the old one. A row of "new" is a row of the pair, whoever answers.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of them
            One key or many.
        probabilities : array-like of float
            P(new | features) of each key, or one for all: from a rule that does not change during
            the release.

        Returns
        -------
        bool or list of bool
            Whether the new system answers; the same again for the same key and probability.

        Raises
        ------
        ValueError
            If a key or a probability is invalid.
        """
        contents = [key_content(key) for key in listed_keys(keys)]
        answers = is_routed(contents, probabilities, self.settings.salt_bytes).tolist()
        return answers[0] if is_one_key(keys) else answers  # type: ignore[no-any-return]

    def observe(
        self,
        keys: Key | Iterable[Key],
        losses: ArrayLike | Mapping[str, ArrayLike],
        *,
        system: str | Iterable[str] | None = None,
        keep_first: bool = False,
    ) -> int:
        """Store the losses of keys: late, in any order, and each guardrail by itself if need be.

        A loss belongs to the first unit of a key that a system answered, and is final: it may be
        repeated, and another value of it is refused. Either all of a call is stored or nothing.

        Parameters
        ----------
        keys : str, bytes or int, or an iterable of them
            One key or many, each once; twice if it is of both systems, which are then named.
        losses : array-like of float, or mapping of str to array-like of float
            The losses in [0, bound], by guardrail; without names if there is one guardrail.
        system : {"old", "new"}, or an iterable of them, optional
            The system that caused them, one for all keys or for each, as `assign` returned it. By
            default the one that was first to answer most recently, which is wrong for the late loss
            of a key that has moved to the new system since. Needed with fallback="old"; then keys
            that the old system answered without a row are skipped, with a warning about those that
            have a row of the new system.
        keep_first : bool, default False
            Skip losses of rows that have another one already, instead of refusing them. Only where
            the losses of later units cannot arrive before that of the first.

        Returns
        -------
        int
            How many losses were new.

        Raises
        ------
        ValueError
            If a key was never assigned, a loss is outside [0, bound] or differs from what is
            stored, or the system is needed and not named.
        StoreError
            If they could not be stored.
        """
        found = self._observe(keys, losses, system, keep_first=keep_first)
        if found.moved:
            warn_user(skipped_text(found), AssumptionWarning)
        return found.new

    def _observe(
        self,
        keys: Key | Iterable[Key],
        losses: ArrayLike | Mapping[str, ArrayLike],
        system: str | Iterable[str] | None,
        *,
        keep_first: bool,
    ) -> ObservedKeys:
        return observe_keys(
            self._store,
            self._recorder,
            self.settings.limits,
            keys,
            losses,
            system,
            keep_first=keep_first,
            may_lack_rows=self._outage is not None,
        )

    def advance(self) -> Step:
        """End the present step and begin the next one, with a share from the rows so far.

        The moment must not depend on losses, or the promise in expectation is lost. While an alarm
        stands the share of the next step is 0.

        Returns
        -------
        Step
            The step that has begun.

        Raises
        ------
        ValueError
            If the steps of this release end by themselves; with a confidence they may be ended at
            any time.
        StoreError
            If it could not be stored.
        """
        return self._steps.advance()

    @property
    def step(self) -> Step:
        """The present step."""
        return self._steps.present()[0]

    @property
    def share(self) -> float:
        """The new system's share of the keys now: 0 while an alarm stands."""
        return self._steps.share_in_force()

    def halt(self, reason: str, *, actor: str | None = None) -> None:
        """Let the old system answer all keys, in every process, until `resume`.

        Parameters
        ----------
        reason : str
            Why; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.halt(self._store, reason, actor)

    def resume(self, reason: str, *, actor: str | None = None) -> None:
        """Clear the alarms that stand; the monitors restart, and the ramp begins anew.

        Parameters
        ----------
        reason : str
            Why they may be cleared; stored with it.
        actor : str, optional
            Who does it; by default the name of the operating system's user.
        """
        interventions.resume(self._store, reason, actor)

    def history(self) -> ReleaseHistory:
        """The release so far.

        Returns
        -------
        ReleaseHistory
            Settings, steps and alarms.
        """
        return read_release(self._store)
