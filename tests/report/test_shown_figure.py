"""A notebook shows the plots of results, although nothing imports pyplot."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import tether
from tether.report.plot_frame import new_figure

PNG = b"\x89PNG\r\n"


def results():
    actions = np.random.default_rng(0).normal(size=300)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2, reward=actions)
    found = tether.calibrate(log, alpha=0.15)
    claims = tether.Claims(np.arange(8.0), [0, 1] * 4, [0, 4, 8])
    yield from (log, found, tether.gain(found), tether.compare([found, found]))
    yield tether.gain_over_alphas(log, alphas=[0.1, 0.15])
    yield from (tether.plan(alpha=0.1, safe_risk=0.05), tether.gcrc(claims, alpha=0.5))


@pytest.mark.parametrize("result", list(results()), ids=lambda each: type(each).__name__)
def test_the_plot_of_a_result_brings_its_picture(result):
    figure = result.plot()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(PNG)


def test_a_figure_can_be_pickled():
    figure = new_figure()
    figure.add_subplot().plot([0, 1])
    assert pickle.loads(pickle.dumps(figure))._repr_png_().startswith(PNG)


def test_ipython_shows_the_picture_without_pyplot():
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell; "
        "from tether.report.plot_frame import new_figure; "
        "figure = new_figure(); figure.add_subplot(); "
        "data, _ = InteractiveShell().display_formatter.format(figure); "
        "print('image/png' in data, 'matplotlib.pyplot' in sys.modules)"
    )
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", "False"]
