"""Which columns of a source make a log or proposals, and what is refused before any row is read."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tether._core.frame_contexts import ContextsNotStatedError


class Named:
    """A source whose columns are known, and whose rows are never read."""

    def __init__(self, *names):
        self.names = [*names]

    def reduce(self, kernel):
        raise AssertionError("rows are read")


PLAIN = ("loss", "log_safe", "log_optimized")


def test_nothing_is_read_when_a_log_is_named():
    log = tether.Log.scan(Named(*PLAIN), context=None)
    assert log.loss_names == ("loss",)
    assert not log.contextual
    assert "not read yet" in repr(log)


def test_contexts_must_be_stated_unless_tables_tell():
    with pytest.raises(ContextsNotStatedError, match=r"\['user'\]"):
        tether.Log.scan(Named(*PLAIN, "user"))
    assert tether.Log.scan(Named(*PLAIN, "user"), context="user").contextual
    tables = [f"{name}_{k}" for name in ("log_safe_all", "log_optimized_all") for k in (0, 1)]
    assert tether.Log.scan(Named(*PLAIN, *tables)).has_tables
    with pytest.raises(ValueError, match="cannot be a context too"):
        tether.Log.scan(Named(*PLAIN), context="loss")


@pytest.mark.parametrize(
    ("names", "arguments", "message"),
    [
        (PLAIN, {"loss": "cost"}, "no column 'cost'"),
        (PLAIN, {"reward": "gain"}, "no column 'gain'"),
        ((*PLAIN, "log_safe_all_0"), {}, "log_optimized_all is missing"),
        ((*PLAIN, "a", "b"), {"safe_draws": ["a", "b"]}, "go together"),
        ((*PLAIN, "a"), {"safe_draws": ["a"]}, "must name 2 columns of lists"),
        (PLAIN, {"loss": []}, "loss is empty"),
    ],
)
def test_columns_that_do_not_make_a_log_are_refused(names, arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.Log.scan(Named(*names), context=None, **arguments)


def test_proposals_take_their_policy_from_a_column_or_a_word():
    plain = ("log_safe", "log_optimized")
    assert not tether.Proposals.scan(Named(*plain), context=None).columns.source_is_column
    stated = tether.Proposals.scan(Named(*plain), context=None, drawn_by="safe")
    assert stated.columns.source == "safe"
    assert tether.Proposals.scan(Named(*plain, "source"), context=None).columns.source_is_column
    with pytest.raises(ValueError, match="no column 'who'"):
        tether.Proposals.scan(Named(*plain), context=None, drawn_by="who")


def test_a_function_takes_a_kernel_and_returns_summaries():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=300)
    columns = {
        "loss": (actions > 1.5).astype(float),
        "log_safe": -(actions**2) / 2,
        "log_optimized": -((actions - 1) ** 2) / 2,
    }

    def partitions(kernel):
        assert set(kernel.columns) == set(columns)
        for part in np.array_split(np.arange(300), 3):
            yield kernel.partial({name: values[part] for name, values in columns.items()})

    found = tether.calibrate(tether.Log.scan(partitions, context=None), alpha=0.2)
    memory = tether.calibrate(tether.Log.from_frame(columns, context=None), alpha=0.2)
    assert found.log_beta == pytest.approx(memory.log_beta, abs=1e-12)


def test_a_function_that_returns_no_summaries_is_named():
    claims = tether.Claims.scan(lambda kernel: None, scores="s", supported="y", items="i")
    with pytest.raises(TypeError, match=r"must return the summaries of .*, got None"):
        tether.gcrc(claims, alpha=0.1)
