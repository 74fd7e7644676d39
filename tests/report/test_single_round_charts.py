import numpy as np

import tether
from tests.report import example_histories
from tests.report.html_tree import parse


def test_extreme_calibrations_are_drawn():
    """Log ratios of hundreds, a policy that loses nothing, and infinite limits."""
    rng = np.random.default_rng(2)
    log_ratio = 300 * rng.normal(size=200)
    log = tether.Log(rng.random(200) < 0.02, np.full(200, -800.0), -800 + np.minimum(log_ratio, 0))
    wide = tether.calibrate(log, alpha=0.3)
    harmless = tether.calibrate(tether.Log(np.zeros(50), np.zeros(50), np.zeros(50)), alpha=0.1)
    unlimited = example_histories.Estimate(3, 0.5, -np.inf, np.inf)
    rounds = [
        example_histories.tethered_round(1, rng, calibration=wide, reward=unlimited),
        example_histories.tethered_round(2, rng, calibration=harmless),
    ]
    page = parse(tether.report.render(example_histories.make_history(rounds)))
    assert "nan" not in page.text.lower().split()
    for node in page.find_all("path"):
        assert "nan" not in node.attributes["d"].lower()
