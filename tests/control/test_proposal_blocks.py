"""How draws become blocks, and which rows have which of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.control.context_draws import gather_draws
from tether.control.proposal_blocks import ProposalBlocks


def ragged(rng, contexts, rows, budget, most_blocks):
    """A log and proposals whose contexts have different numbers of rows and of draws.

    Every draw has a log ratio of its own, which tells where it went; contexts are shuffled and may
    repeat, or have draws and no row.
    """
    label = rng.integers(contexts, size=rows)
    log = tether.Log(np.zeros(rows), np.zeros(rows), np.zeros(rows), context=label)
    places, sources = [], []
    for context in range(contexts):
        for source in ("safe", "optimized"):
            count = budget * rng.integers(1, most_blocks + 1) + rng.integers(budget)
            places += [context] * int(count)
            sources += [source] * int(count)
    order = rng.permutation(len(places))
    ratio = rng.permutation(np.linspace(-3, 0, len(places)))
    place, source = np.array(places)[order], np.array(sources)[order]
    return log, tether.Proposals(np.zeros(len(ratio)), ratio, context=place, source=source)


def columns_of_groups(blocks):
    """The columns of each group."""
    ends = [*blocks.group_start[1:], blocks.log_ratio_safe.shape[1]]
    return [np.arange(*each) for each in zip(blocks.group_start, ends, strict=True)]


def context_of(values, proposals, chosen):
    """The context of each draw, recognized by its ratio; an error if the policy did not draw it."""
    known = dict(zip(proposals.log_optimized[chosen], proposals.context[chosen], strict=True))
    return np.vectorize(known.__getitem__)(values)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 25),
    st.integers(1, 4),
    st.integers(1, 6),
)
@settings(max_examples=150, deadline=None)
def test_every_block_belongs_to_one_group_in_its_own_context(
    seed, contexts, rows, budget, most_blocks
):
    log, proposals = ragged(np.random.default_rng(seed), contexts, rows, budget, most_blocks)
    blocks = ProposalBlocks.build(gather_draws(log, proposals), budget)
    counts = np.array(
        [
            [np.sum((proposals.context == k) & chosen) for k in range(contexts)]
            for chosen in (proposals.from_safe, ~proposals.from_safe)
        ]
    )
    per_context = counts.min(axis=0) // budget
    safe, optimized = blocks.log_ratio_safe, blocks.log_ratio_optimized
    assert safe.shape == optimized.shape == (budget, per_context.sum())
    for part in (safe, optimized):
        assert len(np.unique(part)) == part.size  # no draw is used twice
    context = context_of(safe, proposals, proposals.from_safe)
    assert (context == context_of(optimized, proposals, ~proposals.from_safe)).all()
    assert (context == context[0]).all()  # a block is in one context
    groups = columns_of_groups(blocks)
    assert all(len(columns) for columns in groups)
    used = np.concatenate(groups)
    assert used.tolist() == list(range(safe.shape[1]))  # every block in exactly one group
    group_context = np.array([context[0, columns[0]] for columns in groups])
    for columns, expected in zip(groups, group_context, strict=True):
        assert (context[0, columns] == expected).all()
    assert (group_context[blocks.row] == log.context).all()
    assert blocks.context_start.tolist() == [
        int(np.argmax(group_context == k)) for k in range(contexts)
    ]
    for k in range(contexts):
        in_context = blocks.row[log.context == k]
        sizes = [len(groups[g]) for g in np.flatnonzero(group_context == k)]
        assert max(sizes) - min(sizes) <= 1  # blocks are dealt evenly
        shares = np.bincount(in_context, minlength=len(groups))[group_context == k]
        if len(in_context) <= per_context[k]:
            assert len(np.unique(in_context)) == len(in_context)  # blocks of one's own
        else:
            assert shares.max() - shares.min() <= 1  # and else rows share evenly
            assert len(shares) == per_context[k]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 25), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_means_and_maxima(seed, contexts, rows, budget):
    rng = np.random.default_rng(seed)
    log, proposals = ragged(rng, contexts, rows, budget, 5)
    blocks = ProposalBlocks.build(gather_draws(log, proposals), budget)
    per_block = rng.normal(size=blocks.log_ratio_safe.shape[1])
    means = blocks.group_means(per_block)
    expected = [per_block[columns].mean() for columns in columns_of_groups(blocks)]
    assert means == pytest.approx(np.array(expected), rel=1e-12, abs=1e-12)
    ends = [*blocks.context_start[1:], len(means)]
    largest = [means[a:b].max() for a, b in zip(blocks.context_start, ends, strict=True)]
    assert blocks.context_maxima(means) == pytest.approx(np.array(largest))


def test_a_log_without_contexts_shares_one_set_of_blocks():
    log = tether.Log(np.zeros(5), np.zeros(5), np.zeros(5))
    ratio = np.arange(-12.0, 0.0)
    source = np.repeat(["safe", "optimized"], 6)
    proposals = tether.Proposals(np.zeros(12), ratio, source=source)
    blocks = ProposalBlocks.build(gather_draws(log, proposals), 2)
    assert np.bincount(blocks.row).tolist() == [2, 2, 1]
    assert blocks.log_ratio_safe.T.tolist() == [[-12, -11], [-10, -9], [-8, -7]]
    assert blocks.log_ratio_optimized.T.tolist() == [[-6, -5], [-4, -3], [-2, -1]]
    few = ProposalBlocks.build(gather_draws(log, proposals), 6)
    assert few.row.tolist() == [0] * 5
    many = ProposalBlocks.build(gather_draws(log, proposals), 1)
    assert sorted(many.row) == [0, 1, 2, 3, 4]
    assert np.diff(many.group_start, append=6).tolist() == [2, 1, 1, 1, 1]  # all six are used


def test_counts():
    log = tether.Log(np.zeros(3), np.zeros(3), np.zeros(3), context=["b", "a", "b"])
    proposals = tether.Proposals(
        np.zeros(5), np.zeros(5), context=list("babba"), source=["safe", *["optimized"] * 3, "safe"]
    )
    assert gather_draws(log, proposals).counts.tolist() == [[1, 1], [1, 2]]
    tables = np.log(np.full((3, 2), 0.5))
    of_tables = tether.Log(
        np.zeros(3), tables[:, 0], tables[:, 0], log_safe_all=tables, log_optimized_all=tables
    )
    assert gather_draws(of_tables, None).counts.tolist() == [[0] * 3] * 2


def test_too_few_draws():
    n = 3
    log = tether.Log(np.zeros(n), np.zeros(n), np.zeros(n), context=np.arange(n))
    label, source = np.repeat(np.arange(n), 4), np.tile(["safe", "safe", "optimized", "safe"], n)
    source[1] = "optimized"  # context 0 has two of each
    proposals = tether.Proposals(np.zeros(4 * n), np.zeros(4 * n), context=label, source=source)
    draws = gather_draws(log, proposals)
    assert ProposalBlocks.build(draws, 1).log_ratio_safe.shape == (1, 4)
    with pytest.raises(ValueError, match=r"context number 1 has 3 of the safe policy and 1 of the"):
        ProposalBlocks.build(draws, 2)
    with pytest.raises(ValueError, match=r"a budget of 2 draws per action needs as many"):
        tether.calibrate(log, proposals, alpha=0.1, family="budgeted_clip(2)")
    assert tether.calibrate(log, proposals, alpha=0.6).family == "budgeted_clip(1)"
    only_optimized = tether.Proposals(np.zeros(n), np.zeros(n), context=np.arange(n))
    with pytest.raises(ValueError, match="has 0 of the safe policy and 1 of the optimized one"):
        tether.calibrate(log, only_optimized, alpha=0.1)
    marginal = tether.Log(np.zeros(n), np.zeros(n), np.zeros(n))
    one_policy = tether.Proposals(np.zeros(8), np.zeros(8))
    with pytest.raises(ValueError, match="there are 0 of the safe policy and 8 of the"):
        tether.calibrate(marginal, one_policy, alpha=0.1, family="budgeted_clip(2)")


def test_the_default_budget_is_at_most_sixteen():
    log = tether.Log(np.zeros(2), np.zeros(2), np.zeros(2), context=[0, 1])
    for each, budget in ((3, 3), (16, 16), (40, 16)):
        label = np.repeat([0, 1], 2 * each)
        source = np.tile(np.repeat(["safe", "optimized"], each), 2)
        zeros = np.zeros(4 * each)
        proposals = tether.Proposals(zeros, zeros, context=label, source=source)
        found = tether.calibrate(log, proposals, alpha=0.9)
        assert found.family == f"budgeted_clip({budget})"
