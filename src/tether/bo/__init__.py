"""Bayesian optimization: policies out of acquisition functions, over a pool or a box.

The extra `tether[bo]` brings BoTorch, whose acquisition functions are taken as they are; nothing
here imports it before one is passed.
"""

from tether.bo.box import AcquisitionBox
from tether.bo.pool import AcquisitionPool
from tether.bo.values import acquisition_values

__all__ = ["AcquisitionBox", "AcquisitionPool", "acquisition_values"]
