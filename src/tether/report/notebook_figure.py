"""A figure that a notebook shows by itself, whether or not pyplot has been imported.

IPython learns to show matplotlib's figures when pyplot is imported; the plots of results do not
import it. Where it has been, IPython shows this figure in its own way, once.
"""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

PIXELS_PER_POINT_OF_SCREEN = 2
"""Pictures are drawn twice as fine as they are shown, so that they are sharp on every screen."""


class NotebookFigure(Figure):
    """A matplotlib figure with the method by which a notebook asks for a picture."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """What a notebook shows: the picture, and how large it is to be shown."""
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=PIXELS_PER_POINT_OF_SCREEN * self.dpi)
        width, height = (round(side * self.dpi) for side in self.get_size_inches())
        return picture.getvalue(), {"width": width, "height": height}
