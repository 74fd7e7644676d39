"""Opening a run again from its store alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from tether._core.arrays import Contexts
from tether.rounds.controller import Controller
from tether.rounds.errors import StoreError
from tether.rounds.policy_registry import PolicyLookup
from tether.rounds.run_settings import ROUNDS_KIND, check_kind
from tether.rounds.settings import Settings
from tether.rounds.store.database import Store
from tether.rounds.store.deadline import DEADLINE_SECONDS
from tether.rounds.store.queries import read_settings
from tether.rounds.stored_policies import PolicyLoader, load_stored_policy


def reopen(
    store: str | Path,
    *,
    policies: PolicyLookup = None,
    load: PolicyLoader | None = None,
    context_score: Callable[[Contexts], ArrayLike] | None = None,
    draws: int | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> Controller:
    """Continue a run with the settings and the safe policy that its store has.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    policies : mapping or callable, optional
        Past optimized policies that could not be stored, by name.
    load : callable, optional
        How stored policies are loaded; by default `tether.saving.policy_from_bytes`.
    context_score : callable, optional
        The function from contexts to scores, if the run monitors contexts.
    draws : int, optional
        Draws of each policy for a calibration, see `Controller`.
    deadline : float, default 5.0
        How many seconds a call may wait for the store.

    Returns
    -------
    Controller
        The run.

    Raises
    ------
    ValueError
        If the safe policy could not be stored: pass it to `Controller` instead.
    StoreError
        If there is no store, or no run in it.

    Examples
    --------
    >>> import tempfile, numpy as np, tether
    >>> path = tempfile.mkdtemp() + "/run.db"
    >>> tether.Controller(tether.Gaussian(0.0), alpha=0.1, store=path).close()
    >>> reopen(path).settings.limits["loss"].alpha
    0.1
    """
    opened = Store(store, create=False, deadline=deadline)
    try:
        with opened.reading() as connection:
            stored = read_settings(connection)
            if not stored:
                raise StoreError(f"{opened.name} holds no run of tether yet")
            check_kind(stored, ROUNDS_KIND, opened.name)
            settings = Settings.from_dict(stored)
            if stored["safe_policy"] is None:
                raise ValueError(
                    f"the safe policy {settings.safe!r} is not in {opened.name} "
                    f"({stored['safe_policy_problem']}): pass it to tether.Controller"
                )
            safe = load_stored_policy(connection, stored["safe_policy"], load)
    finally:
        opened.close()
    return Controller(
        safe,
        store=store,
        policies=policies,
        load=load,
        context_score=context_score,
        draws=draws,
        deadline=deadline,
        **_arguments(settings),
    )


def _arguments(settings: Settings) -> dict[str, Any]:
    """The arguments of a controller that has these settings."""
    same = (
        "family",
        "test_weight",
        "calibration_share",
        "missing",
        "min_observed_share",
        "against",
        "false_alarm_probability",
        "normalizer_draws",
        "ratio_error",
        "blend",
        "confidence",
        "actions_per_step",
        "seed",
    )
    return {
        **{name: getattr(settings, name) for name in same},
        settings.target: {name: limit.alpha for name, limit in settings.limits.items()},
        "bound": {name: limit.bound for name, limit in settings.limits.items()},
        "alarm_risk": {name: limit.alarm_risk for name, limit in settings.limits.items()},
        "name": settings.safe,
        "max_silence": settings.max_silence,
    }
