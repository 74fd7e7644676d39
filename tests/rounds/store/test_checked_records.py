"""A record from outside is a row of its table, or it is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.rounds.store import schema
from tether.rounds.store.checked_records import record_from_json

ALARM = {"number": 1, "round": 2, "monitor": "risk", "message": "above", "raised": "now"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(2**70),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def test_a_good_record_is_a_row():
    assert record_from_json(schema.alarms, json.dumps(ALARM)) == ALARM
    lane = {
        "lane": -1,
        "last_action": 0,
        "last_observation": 0,
        "last_entry": 2**62,
        "head": "00ff",
    }
    assert record_from_json(schema.lanes, json.dumps(lane)) == lane | {"head": b"\x00\xff"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("number", value) for value in (None, True, 1.5, "1", 2**31, 2**70, [1])],
        *[("monitor", value) for value in (None, 7, "x" * 17)],
        *[("message", value) for value in (None, 7, "a\0b", "\ud800")],
    ],
)
def test_a_value_of_another_type_is_refused(name, value):
    with pytest.raises(ValueError):
        record_from_json(schema.alarms, json.dumps(ALARM | {name: value}))


@pytest.mark.parametrize("change", [{"more": 1}, {"number": ...}])
def test_other_columns_are_refused(change):
    record = {name: value for name, value in (ALARM | change).items() if value is not ...}
    with pytest.raises(ValueError, match="must have number, round"):
        record_from_json(schema.alarms, json.dumps(record))


@given(st.sampled_from([schema.rounds, schema.audit, schema.lanes, schema.settings]), st.data())
def test_whatever_is_given_is_a_row_or_a_value_error(table, data):
    names = [column.name for column in table.c]
    record = {name: data.draw(ANYTHING) for name in names}
    try:
        row = record_from_json(table, json.dumps(record))
    except (ValueError, OverflowError):
        return
    for column in table.c:
        assert row[column.name] is not None or column.nullable
        assert row[column.name] == row[column.name]  # no NaN
