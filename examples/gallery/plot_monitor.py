"""
A monitor raises an alarm
=========================

The wealth of a bet against "the expected loss is at most alpha", before and after a change.

A monitor bets on every loss that arrives. While the promise holds, its wealth reaches 100 with
probability at most 1/100, however long one looks. When the risk goes up, it grows quickly.
"""

# %%
# Losses with a risk of 5 %, which rises to 20 % after 1,500 actions. The monitor tests 10 %.

import matplotlib.pyplot as plt
import numpy as np

from tether.monitor import RiskMonitor

rng = np.random.default_rng(3)
before, after = 1500, 600
risks = np.repeat([0.05, 0.20], [before, after])

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for _ in range(8):
    monitor = RiskMonitor(alpha=0.1, false_alarm_probability=0.01)
    losses = (rng.random(len(risks)) < risks).astype(float)
    log_wealth = np.array([monitor.update([loss]).log_wealth for loss in losses])
    panel.plot(log_wealth / np.log(10), color="#1f5fa8", alpha=0.6)
panel.axvline(before, color="#c8442f", label="the risk rises from 5 % to 20 %")
panel.axhline(2, linestyle="--", color="#888888", label="alarm: a wealth of 100")
panel.set(xlabel="losses seen", ylabel="wealth (powers of ten)", title="Eight runs")
panel.legend(loc="upper left")
plt.show()
