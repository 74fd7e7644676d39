"""Every kind of object that can be saved; the first that recognizes an object is used."""

from __future__ import annotations

from tether.saving.aiming_kinds import AIMING_KINDS
from tether.saving.code_kinds import FUNCTION_KINDS, OWN, RECIPE
from tether.saving.kind import Kind
from tether.saving.policy_kinds import POLICY_KINDS
from tether.saving.sklearn_kind import MODEL
from tether.saving.tethered_kinds import TETHERED_KINDS
from tether.saving.torch_kinds import TORCH_KINDS

_MODULE, _DISTRIBUTION = TORCH_KINDS
KINDS: tuple[Kind, ...] = (
    OWN,
    _MODULE,  # before recipes: its weights are saved as well
    RECIPE,
    *POLICY_KINDS,
    *TETHERED_KINDS,
    *AIMING_KINDS,
    _DISTRIBUTION,
    MODEL,
    *FUNCTION_KINDS,
)
"""The kinds, in the order in which they are asked."""
