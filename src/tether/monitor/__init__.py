"""Is it holding? Two monitors whose alarms may be read at any time, as often as one likes."""

from tether.monitor.risk_monitor import RiskMonitor, RiskReport
from tether.monitor.shift_monitor import ShiftMonitor, ShiftReport

__all__ = ["RiskMonitor", "RiskReport", "ShiftMonitor", "ShiftReport"]
