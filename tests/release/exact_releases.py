"""Releases worked out exactly, for losses of 0 and 1: sums over all outcomes, no simulation.

Nothing here uses the package; a rule is a function of rows and losses that returns a share.
"""

from collections import defaultdict

import numpy as np
from scipy.stats import binom


def excess(rule, rows, risk, old_risk, alpha):
    """(R₁ − R₀)·E[s] / (α − R₀) with a fixed number of rows: above 1 means a risk above alpha."""
    losses = np.arange(rows + 1)
    share = np.array([rule(rows, each) for each in losses])
    return (risk - old_risk) / (alpha - old_risk) * binom.pmf(losses, rows, risk) @ share


def ramp_excess(rule, keys, steps, risk, old_risk, alpha, replaces=None):
    """The same for every step of a release; `replaces(window, latest)` decides on (rows, losses).

    Without `replaces`, every share comes from all rows so far.
    """
    states, found = {(0, 0): 1.0}, []
    for _ in range(steps):
        found.append(sum(chance * rule(*state) for state, chance in states.items()))
        after = defaultdict(float)
        for state, chance in states.items():
            taken = binom.pmf(np.arange(keys + 1), keys, rule(*state))
            for rows in range(keys + 1):
                for losses, part in enumerate(binom.pmf(np.arange(rows + 1), rows, risk)):
                    if replaces is None:
                        new = (state[0] + rows, state[1] + losses)
                    else:
                        new = (rows, losses) if replaces(state, (rows, losses)) else state
                    after[new] += chance * taken[rows] * part
        states = after
    return (risk - old_risk) / (alpha - old_risk) * np.array(found)


def pooled_excess(rule, keys, steps, risk, old_risk, alpha, replaces):
    """The same where the rows of all steps since the window replace it; by their numbers alone."""
    states, found = {((0, 0), (0, 0)): 1.0}, []
    for number in range(steps):
        found.append(sum(chance * rule(*window) for (window, _), chance in states.items()))
        after = defaultdict(float)
        for (window, since), chance in states.items():
            taken = binom.pmf(np.arange(keys[number] + 1), keys[number], rule(*window))
            for rows, given in enumerate(taken):
                for losses, part in enumerate(binom.pmf(np.arange(rows + 1), rows, risk)):
                    pool = (since[0] + rows, since[1] + losses)
                    state = (pool, (0, 0)) if replaces(window[0], pool[0]) else (window, pool)
                    after[state] += chance * given * part
        states = after
    return (risk - old_risk) / (alpha - old_risk) * np.array(found)


def best_stopping_excess(rule, horizon, risk, old_risk, alpha):
    """The same if someone who watches every row may choose when the share is computed."""
    value = np.array([rule(horizon, each) for each in range(horizon + 1)])
    for rows in range(horizon - 1, -1, -1):
        now = np.array([rule(rows, each) for each in range(rows + 1)])
        value = np.maximum(now, risk * value[1 : rows + 2] + (1 - risk) * value[: rows + 1])
    return (risk - old_risk) / (alpha - old_risk) * value[0]
