"""Blocks hold all rows of a moment, in the order in which calibrations saw them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether.rounds.calibration_blocks import Moment
from tether.rounds.store.followed_lane import Place
from tether.rounds.store.lanes import first_id, split_ids
from tether.rounds.store.serving import Serving

growth = st.dictionaries(st.sampled_from([0, 1, 7, 1 << 16]), st.integers(0, 9), max_size=4)


def in_order(reached):
    """By definition: by the first calibration that saw a row, then lane, then number."""
    ids = [
        first_id(lane) + number
        for lane, last in reached[-1].items()
        for number in range(1, last + 1)
    ]
    lanes, numbers = split_ids(np.array(ids, dtype=np.int64))
    saw = [
        next(k for k, each in enumerate(reached) if each.get(lane, 0) >= number)
        for lane, number in zip(lanes.tolist(), numbers.tolist(), strict=True)
    ]
    return np.array(ids, dtype=np.int64)[np.lexsort((numbers, lanes, saw))].tolist()


@given(growths=st.lists(growth, min_size=1, max_size=5), size=st.integers(1, 8))
def test_blocks_are_in_the_order_of_calibrations(growths, size):
    reached = [{}]
    for grown in growths:
        lanes = {*reached[-1], *grown}
        reached.append({k: reached[-1].get(k, 0) + grown.get(k, 0) for k in lanes})
    *earlier, now = reached[1:]
    places = {lane: Place(1, b"", last, 0) for lane, last in now.items()}
    moment = Moment(places, Serving(len(earlier), None), frozenset(), tuple(earlier))
    blocks = [
        [id_ for after, last in block for id_ in range(after + 1, last + 1)]
        for block in moment.blocks(size)
    ]
    assert [id_ for block in blocks for id_ in block] == in_order(reached[1:])
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)
