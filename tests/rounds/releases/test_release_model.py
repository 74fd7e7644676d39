"""Random calls of a release against a model of plain dictionaries, restarts included."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.rounds.releases.dictionary_model import DictionaryModel
from tests.scale import scaled
from tether.release import ArmCounts, Guardrail
from tether.rounds.releases.verify_steps import find_wrong_steps
from tether.rounds.store.queries import read_settings
from tether.rounds.verify_kept import find_wrong_sums

SALT = b"of this test"
KEYS = [f"user {k}" for k in range(60)]
MEMORY = Path("/dev/shm")
LOSSES = (0.0, 0.5, 1.0)

keys = st.sampled_from(KEYS)
losses = st.sampled_from(LOSSES)
calls = st.one_of(
    st.tuples(st.just("assign"), st.lists(keys, min_size=1, max_size=25)),
    st.tuples(st.just("observe"), keys, losses, st.sampled_from(["harm", "delay", "both"])),
    st.tuples(st.just("observe all"), st.sampled_from([0.0, 0.0, 0.5])),
    st.tuples(st.just("advance")),
    st.tuples(st.just("halt")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("restart")),
)


@settings(max_examples=scaled(15), deadline=None)
@given(
    st.lists(calls, min_size=5, max_size=30),
    st.sampled_from([None, 0.9]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([None, None, 17]),
)
def test_a_release_is_what_plain_dictionaries_say(
    sequence, confidence, has_log, promise, wait, keys_per_step
):
    promise = promise and confidence is None
    target = "promise" if promise else "alpha"
    given_guardrails = {"harm": (0.3, 1.0), "delay": (0.8, 2.0)}
    guardrails = {
        name: Guardrail(**{target: tolerated}, bound=bound)
        for name, (tolerated, bound) in given_guardrails.items()
    }
    log = {"harm": ArmCounts(40, 2.0, 1), "delay": ArmCounts(40, 6.0)} if has_log else None
    made = {
        "guardrails": given_guardrails,
        "old": log,
        "promise": promise,
        "confidence": confidence,
        "wait": wait,
        "keys_per_step": keys_per_step,
        "alarm_risk": {"harm": 0.999, "delay": 1.999},
        "false_alarm_probability": 1e-9,
        "max_silence": None,
        "salt": SALT,
    }
    model = DictionaryModel(
        guardrails,
        SALT,
        log=log,
        confidence=confidence,
        wait=wait,
        keys_per_step=keys_per_step,
    )
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "release.db"
        release = tether.Release(path, **made)
        for call in sequence:
            release = _play(call, release, model, path, made)
            assert release.share == pytest.approx(model.share, abs=1e-12)
        found = [
            (s.calibration.share, s.window_from, s.window, s.ramp) for s in release.history().steps
        ]
        expected = [
            (each["share"], each["window"][0], each["window"][-1], each["ramp"])
            for each in model.steps
        ]
        assert found == [pytest.approx(each, abs=1e-12) for each in expected]
        _check_rows(release, model)
        with release._store.reading() as connection:
            assert list(find_wrong_steps(connection, read_settings(connection))) == []
            assert list(find_wrong_sums(connection, release.settings)) == []
        release.close()


def _play(call, release, model, path, made):
    what = call[0]
    if what == "assign":
        answers = {key: model.assign(key) for key in dict.fromkeys(call[1])}
        assert release.assign(call[1]) == [answers[key] for key in call[1]]
    elif what == "observe":
        _, key, loss, which = call
        given_losses = {name: loss for name in ("harm", "delay") if which in (name, "both")}
        _observe(release, model, key, given_losses)
    elif what == "observe all":
        for system in ("old", "new"):
            mine = [key for (key, arm), row in model.rows.items() if arm == system]
            mine = [key for key in mine if not model.rows[key, system]["losses"]]
            values = {name: [call[1]] * len(mine) for name in ("harm", "delay")}
            assert release.observe(mine, values, system=system) == 2 * len(mine)
            for key in mine:
                model.observe(key, {"harm": call[1], "delay": call[1]}, system)
    elif what == "advance":
        if model.keys_per_step is not None and model.confidence is None:
            with pytest.raises(ValueError, match="end by themselves"):
                release.advance()
        else:
            release.advance()
            model.advance()
    elif what == "halt" and not model.alarm:
        release.halt("a test")
        model.halt()
    elif what == "resume" and model.alarm:
        release.resume("a test", actor="ann")
        model.resume()
    elif what == "restart":
        release.close()
        release = tether.Release(path, **made)
    return release


def _observe(release, model, key, given_losses, system=None):
    mine = [each for each in ("old", "new") if (key, each) in model.rows]
    if not mine:
        with pytest.raises(ValueError, match="never assigned"):
            release.observe(key, given_losses, system=system)
        return
    latest = system or max(mine, key=lambda each: model.rows[key, each]["step"])
    stored = model.rows[key, latest]["losses"]
    if any(stored.get(name, loss) != loss for name, loss in given_losses.items()):
        with pytest.raises(ValueError, match="already observed"):
            release.observe(key, given_losses, system=system)
        return
    new = len(set(given_losses) - set(stored))
    assert release.observe(key, given_losses, system=system) == new
    model.observe(key, given_losses, system)


def _check_rows(release, model):
    """Every step has the rows of the model, by system; and the means of their losses."""
    for record in release.history().steps:
        for system, found in (("old", record.old), ("new", record.new)):
            mine = [
                row
                for (_, arm), row in model.rows.items()
                if arm == system and row["step"] == record.number
            ]
            assert found.rows == len(mine)
            for name in ("harm", "delay"):
                known = [row["losses"][name] for row in mine if name in row["losses"]]
                assert (name in found.losses) == bool(known)
                if known:
                    assert found.losses[name].count == len(known)
                    assert found.losses[name].mean == pytest.approx(sum(known) / len(known))
                    assert found.losses[name].lower <= found.losses[name].mean
