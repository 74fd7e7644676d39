"""How many rows: what a log must have before any beta passes, and what beta to expect then.

`tether.plan` is the entry point. A plan models a calibration on logs of a given size, from a log or
from a few figures; it promises nothing itself.
"""

from tether.planning.plan_result import Plan
from tether.planning.row_planning import plan

__all__ = ["Plan", "plan"]
