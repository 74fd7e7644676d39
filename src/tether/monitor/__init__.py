"""Monitors of what is deployed: whether the risk is at most alpha, whether contexts shifted.

All are valid at any time: they may be checked after every observation (`KeyMonitor`: after every
window) without extra false alarms.
"""

from tether.monitor.key_monitor import KeyMonitor, KeyStatus
from tether.monitor.risk_monitor import RiskMonitor, RiskStatus
from tether.monitor.shift_monitor import ShiftMonitor, ShiftStatus

__all__ = ["KeyMonitor", "KeyStatus", "RiskMonitor", "RiskStatus", "ShiftMonitor", "ShiftStatus"]
