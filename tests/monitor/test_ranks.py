import itertools
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.monitor.ranks import SCORES_PER_BLOCK, Ranks

SCORES = st.lists(st.one_of(st.integers(0, 3).map(float), st.floats(-5, 5)), min_size=1)


@settings(deadline=None)
@given(reference=SCORES, batches=st.lists(SCORES, min_size=1))
def test_counts_are_those_of_a_plain_list(reference, batches):
    ranks, bag = Ranks(np.array(reference)), list(reference)
    for batch in batches:
        above, equal = ranks.push(np.array(batch))
        for score, more, same in zip(batch, above, equal, strict=True):
            assert more == sum(s > score for s in bag)
            assert same == sum(s == score for s in bag)
            bag.append(score)
    assert len(ranks) == len(bag)
    assert ranks.scores().tolist() == sorted(bag)


def test_long_batches_and_many_small_ones():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 500, size=5 * SCORES_PER_BLOCK + 3).astype(float)
    at_once, single = Ranks(np.array([250.0])), Ranks(np.array([250.0]))
    above, equal = at_once.push(scores)
    pushed = [single.push(scores[i : i + 1]) for i in range(len(scores))]
    assert above.tolist() == [int(more[0]) for more, _ in pushed]
    assert equal.tolist() == [int(same[0]) for _, same in pushed]
    lengths = [len(part) for part in single._sorted]
    assert all(longer > 2 * shorter for longer, shorter in itertools.pairwise(lengths))


def test_ranks_are_uniform_and_independent():
    """Over all orders of six scores, two of them reference: all ranks equally often."""
    ranks = Counter()
    for order in itertools.permutations([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
        above, _ = Ranks(np.array(order[:2])).push(np.array(order[2:]))
        ranks[tuple(above.tolist())] += 1
    assert len(ranks) == 3 * 4 * 5 * 6
    assert set(ranks.values()) == {720 // 360}
