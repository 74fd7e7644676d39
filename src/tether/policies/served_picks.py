"""Whether a shortlist that is served picks as the one that a calibration is of.

Another temperature, or a score on another scale, is another optimized policy, and nothing in a beta
tells. So `Shortlist.make_log` notes how candidates are picked, in words that a saved calibration
keeps, and what the picker gives to the candidates of a few rows.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.calibration import Calibration
from tether.control.scored_by import PICKER, ScoredBy
from tether.policies.picker import Picker
from tether.policies.shortlist_rows import ShortlistRows

PROBED_ROWS = 4
"""In how many rows of the log probabilities are kept: a judge may score their candidates again."""
SAME_PICK_TOLERANCE = 0.02
"""How far probabilities of candidates may be from the noted ones: models round."""


def note_picks(picker: Picker, rows: ShortlistRows, table: Floats) -> ScoredBy:
    """What is noted of a picker; `table` has its log-probabilities of all candidates."""
    probed = np.unique(np.linspace(0, len(rows) - 1, min(PROBED_ROWS, len(rows))).astype(np.int64))
    return ScoredBy(
        fingerprints={PICKER: picker.described},
        probe_contexts=rows[probed],
        probe_scores={PICKER: table[probed]},
    )


def check_picks(picker: Picker, found: Calibration) -> None:
    """Refuse a shortlist that picks otherwise than that of the calibration."""
    stated = (found.policies or {}).get(PICKER)
    if stated is not None and stated != picker.described:
        raise ValueError(
            f"this beta was calibrated on candidates picked with {stated}, and this shortlist "
            f"picks with {picker.described}: that is another optimized policy, to be calibrated on "
            f"a log of its own"
        )
    noted = found.scored_by
    if noted is None or PICKER not in noted.probe_scores:
        return
    try:
        now = np.exp(picker.log_prob_all(noted.probe_contexts))
    except RuntimeError:  # what scores is unavailable now, and cannot be compared
        return
    then = np.exp(noted.probe_scores[PICKER])
    furthest = np.unravel_index(int(np.argmax(np.abs(now - then))), then.shape)
    if abs(now[furthest] - then[furthest]) > SAME_PICK_TOLERANCE:
        raise ValueError(
            f"candidates are scored otherwise than in the log that was calibrated on: one that was "
            f"picked with probability {then[furthest]:.3g} is now picked with {now[furthest]:.3g}. "
            f"Another score, or the same on another scale, is another optimized policy, to be "
            f"calibrated on a log of its own"
        )
