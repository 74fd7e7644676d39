"""The definitions of the monitors, computed step by step in plain Python: slow and obvious."""

import math


def cash(steps):
    return 1 / (1 + math.log(1 + steps))


def parts(factors):
    """The money on every (starting time, bet) and the cash, before each step and after the last.

    `factors` has one list per step: what one unit on each bet becomes.
    """
    purses, history = [], []
    bets = len(factors[0])
    for step, factor in enumerate(factors, start=1):
        purses.append([(cash(step - 1) - cash(step)) / bets] * bets)
        history.append(([list(purse) for purse in purses], cash(step)))
        purses = [[part * f for part, f in zip(purse, factor, strict=True)] for purse in purses]
    return [*history, (purses, cash(len(factors)))]


def wealth(factors):
    purses, rest = parts(factors)[-1]
    return rest + sum(map(sum, purses))


def stakes(alpha, bound):
    """1/(2·alpha) for losses in [0, 1], halved until it is at most 1/16."""
    found = [bound / alpha / 2]
    while found[-1] > 1 / 16:
        found.append(found[-1] / 2)
    return found


def risk_factors(losses, alpha, bound):
    return [[1 + s * (loss - alpha) / bound for s in stakes(alpha, bound)] for loss in losses]


def one_bettor(losses, alpha, bound):
    """∏(1 + λ_t·(L_t − α)/B): λ_t is the mean of the stakes by the money on them before L_t."""
    product, chosen = 1.0, []
    history = parts(risk_factors(losses, alpha, bound))
    for loss, (purses, rest) in zip(losses, history, strict=False):
        held = [sum(column) for column in zip(*purses, strict=True)]
        stake = sum(h * s for h, s in zip(held, stakes(alpha, bound), strict=True))
        stake /= rest + sum(held)
        chosen.append(stake)
        product *= 1 + stake * (loss - alpha) / bound
    return product, chosen


def moments(losses, alpha, bound):
    """Σx and Σ(x − guess)² of the losses in [0, 1], the guess being the mean before."""
    total = squares = 0.0
    for step, loss in enumerate(losses, start=1):
        squares += (loss / bound - (alpha / bound + total) / step) ** 2
        total += loss / bound
    return total, squares


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
