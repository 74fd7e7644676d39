"""Bayesian optimization: acquisition functions as policies, over a pool or a box.

The extra `tether[bo]` installs BoTorch, whose acquisition functions are used as they are. Nothing
here imports BoTorch before one is passed.
"""

from tether.bo.acquisition import AcquisitionBox, AcquisitionPool, acquisition_values

__all__ = ["AcquisitionBox", "AcquisitionPool", "acquisition_values"]
