"""Whether a first step that collects the old system's rows is likely to have too few of them."""

from __future__ import annotations

from tether.release.old_rows_needed import (
    EXPECTED_PART,
    RARELY,
    old_fails_probability,
    usual_first_rows,
)
from tether.rounds.releases.release_settings import ReleaseSettings


def short_first_step(settings: ReleaseSettings) -> str:
    """How likely the old system does not pass after the first step, in words; empty if rarely.

    The risk of the old system is not known yet: half of what is tolerated is taken for it.
    """
    keys = settings.keys_per_step
    if keys is None or not settings.collects_old_rows:
        return ""
    fails = {
        name: old_fails_probability(each, keys, EXPECTED_PART * each.tolerated)
        for name, each in settings.guardrails.items()
    }
    worst = max(fails, key=lambda name: fails[name])
    if fails[worst] <= RARELY:
        return ""
    tolerated = settings.guardrails[worst].tolerated
    return (
        f"keys_per_step = {keys:,} may be too few for the first step, whose keys are all that this "
        f"release ever knows of the old system. If the old system's risk for {worst!r} is "
        f"{EXPECTED_PART * tolerated:g}, half of what is tolerated, it does not pass with a "
        f"probability of {fails[worst]:.0%}: the new one then never has a key, and the release has "
        f"to begin anew in another store. {usual_first_rows(settings.guardrails):,} keys pass in "
        f"95 % of releases (`tether release plan` has other numbers). Or give the old system's "
        f"losses from before the release"
    )
