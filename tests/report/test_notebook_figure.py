"""A notebook shows the figure of a result by itself, once, with and without pyplot."""

import base64
import pickle
import struct

import pytest
from matplotlib.figure import Figure

import tether
from tether.report.notebook_figure import NotebookFigure
from tether.report.plot_frame import new_figure

FOUND = "import numpy, tether\nfound = tether.gcrc(numpy.zeros((50, 3)), alpha=0.1)"


def size(picture):
    """The width and height that a PNG states in its header."""
    assert picture.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", picture[16:24])


def test_the_picture_is_drawn_finer_than_it_is_shown():
    figure = new_figure(4.0, 2.0)
    figure.add_subplot().plot([0, 1])
    picture, shown = figure._repr_png_()
    assert shown == {"width": 400, "height": 200}
    assert size(picture) == (800, 400)
    assert figure.dpi == 100


def test_results_return_figures_of_matplotlib_that_can_be_pickled():
    figure = tether.gcrc([[0.0, 0.0]] * 50, alpha=0.1).plot()
    assert isinstance(figure, Figure)
    again = pickle.loads(pickle.dumps(figure))
    assert isinstance(again, NotebookFigure)
    assert size(again._repr_png_()[0]) == size(figure._repr_png_()[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.parametrize("first", ["", "import matplotlib.pyplot\n"], ids=["alone", "with pyplot"])
def test_a_notebook_shows_one_picture(first, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(code) for code in (first + FOUND, "found.plot()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    (output,) = notebook.cells[1].outputs
    width, height = size(base64.b64decode(output["data"]["image/png"]))
    assert width > height > 300
