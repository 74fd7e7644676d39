"""Results have the same bits on one thread and on several."""

import json

import numpy as np
import pytest

import tether
from tether._core import blocks
from tether._core.blocks import THREADS_VARIABLE
from tether.control.solvers import clip

ROWS = 3000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks of few rows, so that a short log is shared among threads."""
    real = blocks.map_blocks
    for module in _modules_with_blocks():
        monkeypatch.setattr(
            module, "map_blocks", lambda task, rows, size=0: real(task, rows, block_rows=37)
        )
    monkeypatch.setattr(clip, "MAX_SORTED", 64)


def _modules_with_blocks():
    import sys

    tether.calibrate  # noqa: B018  (loads the room)
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("tether.") and hasattr(module, "map_blocks") and module is not blocks
    ]


def worlds():
    """A log and its draws: one round, two rounds, tables of all actions, and draws in contexts."""
    rng = np.random.default_rng(3)
    actions, drawn = rng.normal(size=ROWS), 1 + 0.8 * rng.normal(size=ROWS)
    loss = (actions > 1.5) * rng.random(ROWS)
    rows, draws = (
        (-(x**2) / 2, -(((x - 1) / 0.8) ** 2) / 2 - np.log(0.8)) for x in (actions, drawn)
    )
    yield tether.Log(loss, *rows), tether.Proposals(*draws)
    mixes = (np.logaddexp(*each) - np.log(2) for each in (rows, draws))
    log_mix, drawn_mix = mixes
    yield tether.Log(loss, *rows, log_mix=log_mix), tether.Proposals(*draws, log_mix=drawn_mix)
    safe = rng.normal(size=(ROWS, 4))
    optimized = safe + rng.normal(size=safe.shape)
    for table in (safe, optimized):
        table -= np.logaddexp.reduce(table, axis=1)[:, None]
    columns = (loss, safe[:, 0], optimized[:, 0])
    yield tether.Log(*columns, log_safe_all=safe, log_optimized_all=optimized), None
    context = np.repeat(np.arange(ROWS), 4)
    scores = (np.repeat(each, 4) + rng.normal(size=4 * ROWS) / 9 for each in rows)
    source = np.tile(["safe", "optimized"], 2 * ROWS)
    yield (
        tether.Log(loss, *rows, context=np.arange(ROWS)),
        tether.Proposals(*scores, context=context, source=source),
    )


@pytest.mark.filterwarnings("ignore:nothing useful is promised:tether.AssumptionWarning")
@pytest.mark.parametrize("world", range(4))
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_one_and_more_threads_give_the_same_bits(monkeypatch, world, family):
    log, proposals = list(worlds())[world]
    alpha = 1.3 * float(log.loss["loss"].mean()) + 0.01
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        calibration = tether.calibrate(log, proposals, alpha=alpha, family=family)
        found.append(json.dumps(calibration.to_dict(), sort_keys=True, default=repr))
    assert found[0] == found[1]
    assert calibration.exists
