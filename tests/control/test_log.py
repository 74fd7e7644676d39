"""Logs, proposals and paths: what they take, what they refuse, and what they give back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.control.worlds import Geometric
from tether.control.columns import PolicyPath
from tether.control.families import find_family
from tether.control.log import Log, Proposals

N = 30
LOSS, SAFE, OPTIMIZED = np.zeros(N), np.linspace(-3, -1, N), np.linspace(-1, -3, N)
TABLE = np.log(np.tile([0.25, 0.75], (N, 1)))
TAKEN = TABLE[:, 0]
TABLES = {"log_safe": TAKEN, "log_optimized": TAKEN}
TABLES |= {"log_safe_all": TABLE, "log_optimized_all": TABLE}


def make(**changed):
    return Log(**{"loss": LOSS, "log_safe": SAFE, "log_optimized": OPTIMIZED, **changed})


NANS, POSITIVE = np.full(N, np.nan), np.linspace(0.1, 0.9, N)
REFUSED = {
    "loss": (LOSS - 1, NANS, LOSS[:-1], {}, {1: LOSS}),
    "log_safe": (np.full(N, -np.inf), np.full(N, np.inf), POSITIVE),
    "log_optimized": (OPTIMIZED[1:], POSITIVE),
    "context": (NANS, range(N - 1)),
    "log_mix": (SAFE[1:],),
    "safe_share": (0.5,),
    "max_ratio": (0.5, 1.5),
    "reward": (NANS,),
    "log_logged": (SAFE[1:],),
    "log_logged_all": (TABLE,),
    "log_mix_all": (TABLE,),
}
CONTRADICT = {  # each other, or the rows
    "log_optimized_all": (TABLE[:, :1], TABLE - 1),
    **{"log_mix_all": (TABLE,), "log_safe": (TAKEN + 0.01,)},
}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        *(({name: value}, name) for name, values in REFUSED.items() for value in values),
        ({"loss": {"harm": LOSS[1:]}}, "harm"),
        ({"log_mix": SAFE - 2, "safe_share": 0.5}, "safe_share"),
        ({"log_mix": SAFE, "safe_share": 1.5}, "safe_share"),
        ({"log_logged": SAFE, "log_base_limit": np.full(N, -1.0)}, "log_base_limit"),
        ({"log_safe_all": TABLE}, "log_optimized_all"),
        *(({**TABLES, name: value}, name) for name in CONTRADICT for value in CONTRADICT[name]),
        ({**TABLES, "log_optimized_all": np.exp(TABLE)}, "logarithm"),
        ({**TABLES, "log_mix": TAKEN}, "log_mix_all"),
    ],
)
def test_a_log_refuses(changed, named):
    with pytest.raises((TypeError, ValueError), match=named):
        make(**changed)
    if changed.keys() <= {"safe_share", "max_ratio"} and changed != {"max_ratio": 1.5}:
        with pytest.raises(ValueError, match=named):  # also of rows that lie elsewhere
            Log.of_rows(make().rows, contextual=False, **changed)


def test_a_frame_has_one_column_for_each_action_of_a_table():
    mixed = {"log_mix": TAKEN, "log_mix_all": TABLE}
    losses = {"harm": LOSS, "delay": LOSS + 1}
    log = make(**TABLES, loss=losses, context=np.arange(N), reward=SAFE, **mixed)
    named = {"loss": ["harm", "delay"], "context": "context", "reward": "reward"}
    tables = {name: getattr(log, name) for name in ("log_safe_all", "log_optimized_all")}
    frame = {f"{name}_{k}": each for name, t in tables.items() for k, each in enumerate(t.T)}
    frame |= {f"log_mix_all_{k}": each for k, each in enumerate(TABLE.T)}
    frame |= {**losses, "reward": SAFE, "context": np.arange(N), "log_mix": log.log_mix}
    frame |= {"log_safe": log.log_safe, "log_optimized": log.log_optimized}
    again = Log.from_frame(frame, **named)
    for name, column in log.rows.columns.items():
        np.testing.assert_array_equal(again.rows.columns[name], column)
    np.testing.assert_array_equal(again.context, log.context)


def test_contexts_of_a_frame_must_be_stated():
    frame = {"loss": LOSS, "log_safe": SAFE, "log_optimized": OPTIMIZED, "age": np.arange(N)}
    with pytest.raises(TypeError, match="context"):
        Log.from_frame(frame)
    assert Log.from_frame(frame, context="age").contextual
    assert not Log.from_frame(frame, context=None).contextual
    with pytest.raises(ValueError, match="context"):
        Log.from_frame(frame, context="log_safe")
    with pytest.raises(TypeError, match="context"):
        Proposals.from_frame(frame)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        *(({"source": each}, "source") for each in ("both", ["safe"] * 3, ["other"] * N)),
        ({"log_safe": np.full(N, -np.inf), "source": "safe"}, "log_safe"),
        *(({"log_optimized": each}, "log_optimized") for each in (np.full(N, -np.inf), POSITIVE)),
        *(({"context": range(3)}, "context"), ({"log_mix": SAFE[1:]}, "log_mix")),
        ({"policy_path": PolicyPath("token_clip", [0.0], np.zeros((N, 1)))}, "drawn_at"),
    ],
)
def test_proposals_refuse(changed, named):
    columns = {"log_safe": SAFE, "log_optimized": OPTIMIZED, **changed}
    with pytest.raises((TypeError, ValueError), match=named):
        Proposals(**columns)


def test_proposals_know_who_drew():
    frame = {"log_safe": SAFE, "log_optimized": OPTIMIZED}
    by = {"by": ["safe"] * N, "source": ["safe"] * 10 + ["optimized"] * (N - 10), "optimized": SAFE}
    for source, columns, count in (
        *(("by", by, N), ("safe", frame, N), (None, frame, 0), (None, {**frame, **by}, 10)),
        *((None, {**frame, "optimized": ["safe"] * N}, 0), ("optimized", frame, 0)),
    ):
        drawn = Proposals.from_frame({**frame, **columns}, context=None, source=source)
        assert drawn.from_safe.sum() == count


def test_a_path_refuses():
    for family, betas, table, named in (
        *(("clip", [0.0], np.zeros((3, 1)), "family"), ("token_mix", [0.0], NANS, "log_density")),
        ("token_mix", [1.0, 0.0], np.zeros((3, 2)), "log_beta"),
        ("token_mix", [np.inf], np.zeros((3, 1)), "log_beta"),
        ("token_mix", [0.0], np.zeros((3, 2)), "log_density"),
        ("token_mix", [0.0], NANS[:, None], "log_density"),
    ):
        with pytest.raises(ValueError, match=named):
            PolicyPath(family, betas, table)
    with pytest.raises(ValueError, match="policy_path"):
        make(policy_path=PolicyPath("token_mix", [0.0], np.zeros((3, 1))))


# ---- families ----------------------------------------------------------------------------------


def test_a_family_that_cannot_be_is_refused():
    names = ({"name": "clip"}, {"name": ""})
    for changed in (*names, {"smoothness": -1.0}, {"clips": True}, {"max_draws": 3}):
        with pytest.raises((TypeError, ValueError), match="family"):
            find_family(type("Bad", (Geometric,), changed)())
