"""What to show: a run as one HTML file, and a calibration as a figure. Computes nothing.

Charts are drawn by matplotlib as SVG and written into the page, with their colors left to its style
sheet. Against plotly (4 MB inlined) and Vega-Lite (0.8 MB) this costs about 10 kB a chart, is there
without JavaScript and on paper, follows light and dark, and needs no copy of anybody's bundle; the
price is a small script of our own for pointing at rounds and choosing one.
"""

from tether.report.page import render, write

__all__ = ["render", "write"]
