"""Monitors of a deployed policy: whether its risk is at most alpha, whether contexts shifted.

They may be checked after every observation or window without extra false alarms.
"""

from tether.monitor.loss_monitors import KeyMonitor, RiskMonitor, RiskStatus
from tether.monitor.shift_monitor import ShiftMonitor, ShiftStatus

__all__ = ["KeyMonitor", "RiskMonitor", "RiskStatus", "ShiftMonitor", "ShiftStatus"]
