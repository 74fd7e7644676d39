"""Monitors of a deployed policy: whether the risk is at most alpha, whether contexts shifted.

Both are valid at any time: they may be checked after every observation without extra false alarms.
"""

from tether.monitor.risk_monitor import RiskMonitor, RiskStatus
from tether.monitor.shift_monitor import ShiftMonitor, ShiftStatus

__all__ = ["RiskMonitor", "RiskStatus", "ShiftMonitor", "ShiftStatus"]
