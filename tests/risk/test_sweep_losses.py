import numpy as np
import pytest

import tether

RNG = np.random.default_rng(11)
SCORES = RNG.random(3000)
CLAIMS = tether.Claims(SCORES, RNG.random(3000) < SCORES, np.arange(0, 3001, 5))


def test_a_sweep_prints_and_returns_its_risks():
    swept = tether.risk.sweep(CLAIMS, envelope=False)
    assert repr(swept) == "Sweep(loss='fdr', n_items=600, n_candidates=3001, monotone=False)"
    with pytest.raises(ValueError, match="envelope=False"):
        tether.monotonized_crc(swept, alpha=0.1)
    assert swept.risks(conservative=False)[-1] == pytest.approx(
        1 - CLAIMS.supported.reshape(600, 5).mean()
    )


@pytest.mark.parametrize(
    "arguments",
    [{"thresholds": [0.5]}, {"loss": "fdr"}, {"bound": 2.0}, {"weights": np.ones(600)}],
)
def test_arguments_that_a_sweep_fixes_are_refused(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name} cannot be passed with a sweep"):
        tether.gcrc(tether.risk.sweep(CLAIMS), alpha=0.2, **arguments)


def test_the_bound_of_a_sweep_is_kept():
    swept = tether.risk.sweep(np.zeros((20, 3)), bound=2)
    assert tether.gcrc(swept, alpha=0.2).bound == 2
    assert tether.gcrc(swept, alpha=0.2, bound=2.0).bound == 2
    with pytest.raises(ValueError, match="bound cannot be passed with a sweep"):
        tether.gcrc(swept, alpha=0.2, bound=1.0)
