"""
Why losses that are not monotone need gCRC
==========================================

Choosing the boldest threshold that looks good exceeds alpha, and stopping at the first violation
does not.

At each of 100 thresholds the loss of each item is an independent toss of a coin whose probability
of harm grows. Among a hundred thresholds that are slightly too risky, one looks good by chance.
"""

# %%
# Fifty items, 300 repeats; the true risk of every threshold is known.

import matplotlib.pyplot as plt
import numpy as np

import tether

rng = np.random.default_rng(0)
thresholds = np.linspace(0, 1, 100)
harm = 0.35 * (1 - thresholds)  # larger thresholds are safer
alphas = np.array([0.10, 0.15, 0.20, 0.25])
deployed = {"CRC": np.zeros(len(alphas)), "gCRC": np.zeros(len(alphas))}
repeats = 300
for _ in range(repeats):
    losses = (rng.random((50, 100)) < harm).astype(float)
    for place, alpha in enumerate(alphas):
        for name, method in (("CRC", tether.thresholds.crc), ("gCRC", tether.gcrc)):
            found = method(losses, thresholds, alpha=alpha)
            deployed[name][place] += np.interp(found.threshold, thresholds, harm) / repeats

# %%
# The mean true risk of the threshold that each method chooses.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
panel.plot(alphas, alphas, ":", color="#888888", label="risk = alpha")
for (name, risks), color in zip(deployed.items(), ("#c8442f", "#117733"), strict=True):
    panel.plot(alphas, risks, "o-", color=color, label=name)
panel.set(xlabel="alpha", ylabel="mean true risk", title="CRC exceeds alpha here, gCRC does not")
panel.legend()
plt.show()
