"""The last actions of a run as text."""

import numpy as np
import pandas as pd
import pytest

import tether
from tether.rounds.recent_actions import MAX_SHOWN_TEXT, shown_text
from tether.rounds.run_watch import RunWatch

ACTIONS = ["wait", "treat"]
SAFE = tether.Categorical.from_probabilities([0.5, 0.5], actions=ACTIONS)


def recent(run):
    return RunWatch(run._store, run.settings).look().recent


@pytest.mark.parametrize(
    ("contexts", "text"),
    [
        (1, ""),
        (np.array([[0.5, 2.0]]), "[0.5, 2.0]"),
        (np.array(["<b>ann</b>\nx"]), "<b>ann</b> x"),
        (pd.DataFrame({"age": [7], "name": ["ann"]}), '{"age": 7, "name": "ann"}'),
    ],
)
def test_contexts_of_any_format_are_text(contexts, text):
    with tether.Controller(SAFE, alpha=0.5, store="sqlite://") as run:
        assert recent(run) == ()
        taken = run.begin().act(contexts, np.random.default_rng(0))
        (found,) = recent(run)
        assert (found.context, found.action) == (text, taken.actions[0])
        assert (found.id, found.round, found.served, found.losses) == (1, 1, 0, {})
        run.observe(taken.ids, [0.25])
        assert recent(run)[0].losses == {"loss": 0.25}


def test_the_last_ones_are_shown_latest_first():
    with tether.Controller(SAFE, alpha=0.5, store="sqlite://") as run:
        watch = RunWatch(run._store, run.settings)
        round_, rng = run.begin(), np.random.default_rng(0)
        round_.act(30, rng)
        assert [each.id for each in watch.look().recent] == list(range(30, 10, -1))
        assert watch.look().recent[0].seen is None
        round_.act(2, rng)
        found = watch.look().recent
        assert [each.id for each in found] == list(range(32, 12, -1))
        assert found[0].seen is not None
        assert found[2].seen is None


def test_on_a_shortlist_the_candidate_is_shown():
    shortlist = tether.Shortlist(SAFE, size=3)
    with tether.Controller(shortlist, alpha=0.5, store="sqlite://") as run:
        taken = run.begin().act(4, np.random.default_rng(0))
        assert [each.action for each in recent(run)][::-1] == list(taken.actions)


def test_long_texts_are_shortened():
    assert len(shown_text({"content": "a" * 10_000})) == MAX_SHOWN_TEXT
