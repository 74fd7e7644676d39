"""A function that visits other rows in a later pass is an error, not another beta."""

import numpy as np
import pytest

import tether

RNG = np.random.default_rng(0)
ACTIONS = RNG.normal(size=4000)
SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
COLUMNS = {
    "loss": (ACTIONS > 1.5).astype(float),
    "log_safe": SAFE.log_prob(None, ACTIONS),
    "log_optimized": OPTIMIZED.log_prob(None, ACTIONS),
}


class Partitions:
    """Four partitions, which `change` replaces in every pass but the first."""

    def __init__(self, change=None):
        self.change, self.passes = change, 0

    def __call__(self, kernel):
        self.passes += 1
        parts = [{name: values[k::4] for name, values in COLUMNS.items()} for k in range(4)]
        if self.change is not None and self.passes > 1:
            parts = self.change(parts)
        return [kernel.partial({name: part[name] for name in kernel.columns}) for part in parts]


def found(change):
    partitions = Partitions(change)
    calibration = tether.calibrate(tether.Log.scan(partitions, context=None), alpha=0.1)
    assert partitions.passes > 1
    return calibration


def paired_otherwise(parts):
    return [{**part, "loss": part["loss"][::-1].copy()} for part in parts]


def doubled(parts):
    return [{**parts[0], "loss": 1 - parts[0]["loss"]}, *parts[1:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:2], "4,000 rows and then 2,000"),
        (lambda parts: [*parts, parts[0]], "4,000 rows and then 5,000"),
        (lambda parts: [], "4,000 rows and then 0"),
        (doubled, "other values of 'loss'"),
        (paired_otherwise, "other values of 'loss' beside 'log_safe'"),
    ],
)
def test_other_rows_in_a_later_pass_are_an_error(change, message):
    with pytest.raises(ValueError, match=f"visited other rows than in an earlier pass: {message}"):
        found(change)


def test_the_same_rows_in_other_parts_and_another_order_are_the_same():
    def regrouped(parts):
        joined = {
            name: np.concatenate([part[name] for part in parts])[::-1].copy() for name in COLUMNS
        }
        return [{name: values[k::7] for name, values in joined.items()} for k in range(7)]

    assert found(regrouped).log_beta == found(None).log_beta


def test_summaries_of_an_earlier_pass_are_an_error():
    kept = {}

    def cached(kernel):
        if not kept:
            kept["summary"] = kernel.partial(COLUMNS)
        return [kept["summary"]]

    with pytest.raises(ValueError, match="a summary of an earlier pass: every pass has a kernel"):
        tether.calibrate(tether.Log.scan(cached, context=None), alpha=0.1)


def test_anything_but_summaries_is_an_error():
    log = tether.Log.scan(lambda kernel: [kernel.partial(COLUMNS), 3], context=None)
    with pytest.raises(TypeError, match=r"must return the summaries .*, got 3 among them"):
        tether.calibrate(log, alpha=0.1)
