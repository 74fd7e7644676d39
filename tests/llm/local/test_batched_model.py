"""Batches: every row once, within the limits, similar lengths together; one caller at a time."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")

from tests.llm import tiny_models
from tether.llm.local.batched_model import (
    MAX_PADDING_FACTOR,
    MIN_ROWS_TO_SPLIT,
    pack_prompts,
    pack_rows,
)

PROMPTS = np.array(["cat", "what", "abc", "cat"])
rows = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60)), max_size=80)


@settings(deadline=None)
@given(rows, st.integers(1, 600))
def test_every_row_is_in_one_batch_within_the_limits(pairs, most):
    before, after = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    batches = list(pack_rows(before, after, most))
    assert sorted(np.concatenate([*batches, []]).astype(int).tolist()) == list(range(len(pairs)))
    for batch in batches:
        taken = len(batch) * (before[batch].max() + after[batch].max())
        assert taken <= most or len(batch) == 1
        if len(batch) > MIN_ROWS_TO_SPLIT:
            assert taken <= MAX_PADDING_FACTOR * (before[batch] + after[batch]).sum()


def test_long_rows_do_not_widen_short_ones():
    after = np.array([5] * 40 + [100] * 40)
    order = np.random.default_rng(0).permutation(80)
    batches = list(pack_prompts(after[order], 10**6))
    widths = [set(after[order][batch]) for batch in batches]
    assert widths.count({5}) == 1
    assert sum(len(batch) * max(width) for batch, width in zip(batches, widths, strict=True)) < (
        MAX_PADDING_FACTOR * after.sum()
    )


def test_no_rows_make_no_batch():
    assert list(pack_prompts(np.array([], dtype=np.int64), 10)) == []


def test_several_threads_may_use_one_model():
    actions, _ = tiny_models.completions_and_scores(PROMPTS)
    model = tiny_models.with_adapters(tiny_models.llama(), "tuned")
    policies = [tiny_models.policy(model), tiny_models.policy(model, "tuned")]
    right = [policy.log_prob(PROMPTS, actions) for policy in policies]
    wrong = []

    def score(which):
        for _ in range(40):
            scores = policies[which].log_prob(PROMPTS, actions)
            if not np.allclose(scores, right[which], atol=1e-4):
                wrong.append(which)

    threads = [threading.Thread(target=score, args=(which,)) for which in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert np.abs(right[0] - right[1]).max() > 0.1
