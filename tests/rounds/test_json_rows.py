"""Contexts from JSON, in the format of a run's rows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tether.rounds.json_rows import contexts_from_json
from tether.rounds.store.codecs import Codec


@settings(max_examples=30)
@given(st.lists(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)))
def test_anything_is_converted_or_refused(values):
    try:
        made = contexts_from_json(values)
    except ValueError:
        return
    codec = Codec.of("contexts", made)
    assert len(codec.encode("contexts", made)) == len(values)
