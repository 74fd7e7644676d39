"""Whether the monitors are quiet when they should be, and how soon they speak when they should.

    python -m benchmarks.monitor                          everything
    python -m benchmarks.monitor risk [streams]           false alarms and intervals
    python -m benchmarks.monitor risk-delays [streams]
    python -m benchmarks.monitor calibrated [streams]     alarms over calibrated policies
    python -m benchmarks.monitor shift [streams]          false alarms
    python -m benchmarks.monitor shift-delays [streams]
    python -m benchmarks.monitor keys [streams]           false alarms, of keys that come back
    python -m benchmarks.monitor keys-delays [streams]

Each stream is watched by the monitor itself. In a null world the rate of alarms must not exceed
delta. Delays are counted from the change, over streams without an alarm before it.
"""

from __future__ import annotations

import sys

from benchmarks.monitor_keys import keys, keys_delays
from benchmarks.monitor_risk import calibrated, risk, risk_delays
from benchmarks.monitor_shift import shift, shift_delays

PARTS = {
    "risk": (risk, 10_000),
    "risk-delays": (risk_delays, 500),
    "calibrated": (calibrated, 500),
    "shift": (shift, 10_000),
    "shift-delays": (shift_delays, 200),
    "keys": (keys, 300),
    "keys-delays": (keys_delays, 50),
}


def main(arguments: list[str]) -> None:
    if len(arguments) > 2 or not set(arguments[:1]) <= set(PARTS):
        raise SystemExit(__doc__)
    for name in arguments[:1] or PARTS:
        part, streams = PARTS[name]
        part(int(arguments[1]) if len(arguments) == 2 else streams)


if __name__ == "__main__":
    main(sys.argv[1:])
