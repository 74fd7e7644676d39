"""BoTorch's own imports warn of what torch deprecates, which is not for these tests to judge."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import botorch  # noqa: F401
