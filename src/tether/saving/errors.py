"""What is raised where a policy cannot be saved."""

from __future__ import annotations


class CannotSaveError(ValueError):
    """A policy, or a part of it, has no form that can be written without running code.

    The message names the part and says what to do.

    Examples
    --------
    >>> import tether
    >>> try:
    ...     tether.saving.policy_to_bytes(tether.Gaussian(lambda contexts: contexts))
    ... except CannotSaveError as error:
    ...     print(str(error)[:48])
    policy.mean is a function that no import path le
    """
