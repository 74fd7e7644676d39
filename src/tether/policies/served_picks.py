"""Whether a shortlist that is served is the one that a calibration is of.

Another temperature, or a score on another scale, is another optimized policy, and another model
that draws is another safe one: nothing in a beta tells. So `Shortlist.make_log` notes how
candidates are picked, what scores and draws them, in words or digests that a saved calibration
keeps, and what the picker gives to the candidates of a few rows. `tether.policies.pick_watch`
looks at the rows that are served.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.control.calibration import Calibration
from tether.control.scored_by import CANDIDATES, PICKER, SCORER, ScoredBy
from tether.policies.fingerprint import fingerprint
from tether.policies.picker import Picker
from tether.policies.sampler import Sampler
from tether.policies.shortlist_rows import ShortlistRows

PROBED_ROWS = 4
"""In how many rows of the log probabilities are kept: a judge may score their candidates again."""
SAME_PICK_TOLERANCE = 0.02
"""How far probabilities of candidates may be from the noted ones: models round."""
UNNAMED = "<lambda>"
"""What Python calls a function without a name."""


def note_picks(safe: Sampler, picker: Picker, rows: ShortlistRows, table: Floats) -> ScoredBy:
    """What is noted of a shortlist; `table` has the log-probabilities of all candidates."""
    probed = np.unique(np.linspace(0, len(rows) - 1, min(PROBED_ROWS, len(rows))).astype(np.int64))
    noted = {CANDIDATES: fingerprint(safe), SCORER: _scorer(picker.optimized)}
    return ScoredBy(
        fingerprints={
            PICKER: picker.described,
            **{name: digest for name, digest in noted.items() if digest is not None},
        },
        probe_contexts=rows[probed],
        probe_scores={PICKER: table[probed]},
    )


def check_picks(safe: Sampler, picker: Picker, found: Calibration) -> None:
    """Refuse a shortlist that draws or picks otherwise than that of the calibration."""
    stated = found.policies or {}
    if PICKER in stated and stated[PICKER] != picker.described:
        raise ValueError(
            f"this beta was calibrated on candidates picked with {stated[PICKER]}, and this "
            f"shortlist picks with {picker.described}: that is another optimized policy, to be "
            f"calibrated on a log of its own"
        )
    _check_safe(safe, stated.get(CANDIDATES))
    if not _scores_compared(picker, found.scored_by):
        _check_scorer(picker, stated.get(SCORER))


def _check_safe(safe: Sampler, stated: str | None) -> None:
    """Refuse another model; of plain policies only a digest is known, a weaker sign."""
    now = fingerprint(safe)
    if stated is None or now is None or stated == now:
        return
    if hasattr(safe, "fingerprint"):
        raise ValueError(
            f"this beta was calibrated on candidates drawn by {stated}, and this shortlist draws "
            f"with {now}: that is another safe policy, to be calibrated on a log of its own"
        )
    warn_user(
        "the safe policy does not look like the one that drew the candidates of the log: its "
        "digest is another. If it is not the same policy, calibrate on a log of its own",
        AssumptionWarning,
    )


def _check_scorer(picker: Picker, stated: str | None) -> None:
    """Say that a score has another name, which may still be the same score."""
    now = _scorer(picker.optimized)
    if stated is not None and now is not None and stated != now:
        warn_user(
            f"this beta was calibrated on candidates scored by {stated}, and this shortlist scores "
            f"with {now}. If that is not the same score, it is another optimized policy, to be "
            f"calibrated on a log of its own",
            AssumptionWarning,
        )


def _scorer(optimized: Any) -> str | None:
    """What tells a score from another one: the digest of a policy, or the name of a function."""
    known = fingerprint(optimized)
    name = getattr(optimized, "__name__", UNNAMED)
    if known is not None or not isinstance(name, str) or name == UNNAMED:
        return known
    return f"the function {name}"


def _scores_compared(picker: Picker, noted: ScoredBy | None) -> bool:
    """Refuse another score where the log is in memory; whether this could be told."""
    if noted is None or PICKER not in noted.probe_scores:
        return False
    try:
        now = np.exp(picker.log_prob_all(noted.probe_contexts))
    except RuntimeError:  # what scores is unavailable now, and cannot be compared
        return False
    then = np.exp(noted.probe_scores[PICKER])
    furthest = np.unravel_index(int(np.argmax(np.abs(now - then))), then.shape)
    if abs(now[furthest] - then[furthest]) > SAME_PICK_TOLERANCE:
        raise ValueError(
            f"candidates are scored otherwise than in the log that was calibrated on: one that was "
            f"picked with probability {then[furthest]:.3g} is now picked with {now[furthest]:.3g}. "
            f"Another score, or the same on another scale, is another optimized policy, to be "
            f"calibrated on a log of its own"
        )
    return True
