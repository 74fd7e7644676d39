"""The definitions of the monitors, computed step by step in plain Python: slow and obvious."""

import math


def cash(steps):
    return 1 / (1 + math.log(1 + steps))


def wealth(factors):
    """All money after the steps: one list per step, of what one unit on each bet becomes."""
    purses, bets = [], len(factors[0])
    for step, factor in enumerate(factors, start=1):
        purses.append([(cash(step - 1) - cash(step)) / bets] * bets)
        purses = [[part * f for part, f in zip(purse, factor, strict=True)] for purse in purses]
    return cash(len(factors)) + sum(map(sum, purses))


def stakes(alpha):
    """1/(2·alpha) for losses in [0, 1], halved until it is at most 1/16."""
    found = [0.5 / alpha]
    while found[-1] > 1 / 16:
        found.append(found[-1] / 2)
    return found


def risk_factors(losses, alpha):
    return [[1 + stake * (loss - alpha) for stake in stakes(alpha)] for loss in losses]


def key_factors(windows, alpha):
    of_keys = [zip(*risk_factors(window, alpha), strict=True) for window in windows]
    return [[math.prod(column) for column in each] for each in of_keys]


def shift_factors(p_values):
    views = [(p, 1 - p, 2 * min(p, 1 - p), abs(1 - 2 * p)) for p in p_values]
    return [[k * v ** (k - 1) for k in (0.5, 0.75, 0.9) for v in view] for view in views]


def p_values(reference, scores, uniforms):
    bag, found = list(reference), []
    for score, u in zip(scores, uniforms, strict=True):
        bag.append(score)
        above, equal = sum(s > score for s in bag), sum(s == score for s in bag)
        found.append((above + u * equal) / len(bag))
    return found


def alarm_and_lowest(factors, level):
    """The alarm, and the last step before it after which the wealth was the smallest so far."""
    path = [1.0, *(wealth(factors[:end]) for end in range(1, 1 + len(factors)))]
    alarm_at = next((step for step, each in enumerate(path) if each >= level), None)
    before = path[:alarm_at]
    lows = [step for step, each in enumerate(before) if each <= min(before[: step + 1]) + 1e-10]
    return alarm_at, lows[-1]
