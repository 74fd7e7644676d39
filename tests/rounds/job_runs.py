"""Runs whose rounds begin from jobs, and jobs that were tampered with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.rounds.worlds import one_round
from tether.rounds import Controller, export_calibration, job_files, verify_store


def opened(world, store, **options):
    given = {"alpha": 0.3, "alarm_risk": 0.95, "missing": "worst_case", "max_silence": None}
    return Controller(
        world.safe(),
        store=store,
        policies=lambda name: world.optimized(int(name.split()[1])),
        **given | options,
    )


def run_of(world, store, rounds=2, rows=60, **options):
    """A run with some rounds in memory."""
    run, rng = opened(world, store, **options), np.random.default_rng(5)
    for number in range(1, 1 + rounds):
        one_round(run, world, number, rows, rng)
    return run


def wrong(store):
    return [str(each) for each in verify_store(store).findings if each.ok is False]


def job_of(run, world, folder, number=3):
    return export_calibration(run, world.optimized(number), folder)


def refuse(run, world, job, match, number=3, error=ValueError):
    """The round does not begin, and nothing was written."""
    before = run.round.number
    with pytest.raises(error, match=match):
        run.begin(world.optimized(number), job=job)
    assert run.round.number == before


def forged(job, name, content):
    """The job with another file, and its digest."""
    path = Path(job.folder) / name
    path.write_bytes(content)
    return replace(job, digests={**job.digests, name: job_files.file_digest(path)})
