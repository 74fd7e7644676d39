"""The pictures of the gallery show what their titles say."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"


@pytest.mark.slow
def test_what_is_served_stays_within_the_promise_in_the_picture_of_releases():
    matplotlib.use("Agg")
    made = runpy.run_path(str(GALLERY / "plot_release.py"))
    try:
        assert made["below"].get_title() == "And what is served stays within the promise"
        drawn = [np.asarray(each.lines[0].get_ydata()) for each in made["below"].containers]
        assert len(drawn) == len(made["systems"])
        assert all(each.max() <= 0.02 for each in drawn)
        assert max(each.max() for each in drawn) > 0.019  # and it is no smaller than it may be
    finally:
        made["plt"].close("all")
