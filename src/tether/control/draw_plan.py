"""How many draws each context gets: more where weights are noisy, by a rule fixed in advance.

The weight of a row under budgeted clip is an average over blocks of N fresh proposals in its
context, and unbiased with any number of blocks (`unbiased_averages`). Let b(x, u) be the number of
blocks that a context x gets, where u are pilot draws in x, made for this purpose and then thrown
away. On the space of a context, its pilot, an action and the blocks, the conformal argument holds
word for word:

- b is fixed before the calibration rows are seen: it was learned from draws in training contexts.
  So the pilot and the blocks of a row follow one law given its context and action, the same for
  every calibration row and for the next action;
- given the pilot, and so b, the blocks are fresh. The mean over b blocks of an unbiased weight is
  unbiased, so the weighted law integrates to one, and its action has the density that is served;
- no losses, and no draws that enter a weight, decide about b.

Each of these can be broken. A pilot that is kept in the average makes b depend on what is averaged.
Drawing again where a weight came out large, or where there was a loss, makes weights too small
exactly there. A budget that is shared out among the calibration contexts makes the draws of one row
depend on the other rows but not on the next action. So the budget here is a mean over contexts, met
on the training contexts.

The noise of one block at beta is estimated as in `shared_draws`: with acceptance probabilities of
mean p and variance v, a weight m·S + D has the variance (m·S′(p) + D′(p))²·v/N. With b blocks it
is divided by b, so the sum over contexts is smallest if b is proportional to its square root
(Neyman allocation). In a context, m is averaged over actions of the safe policy. Few draws tell
the noise of a single context badly, so it is averaged over training contexts whose pilots show
about the same divergence of the two policies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers
from tether.control.families import BudgetedClip, Family, find_family
from tether.control.proposals import Proposals
from tether.control.shared_draws import expected_averages

DRAWS_IN_PILOT = 4
"""Draws of each policy in the pilot of a context."""
MOST_LEVELS, LEAST_CONTEXTS_PER_LEVEL = 10, 10
"""Into how many levels of divergence training contexts are sorted at most, and how many each has
at least."""
NEGLIGIBLE_NOISE = 0.01
"""A standard deviation of a weight, whose mean is one, that more draws need not lower."""
LARGEST_LOG_RATIO = 1e3
"""Log ratios beyond this, infinite ones too, count as this much divergence."""


@dataclass(frozen=True)
class DrawPlan:
    """How many draws a context gets, by the divergence that its pilot shows.

    Parameters
    ----------
    family : str
        The family whose weights the draws are for.
    block : int
        N: a context gets a multiple of this many draws of each policy.
    pilot : int
        Draws of each policy in the pilot, which no weight uses.
    log_beta : float
        The beta at which noise was estimated.
    edges : ndarray of float
        The divergences between one level and the next.
    blocks : ndarray of int
        The number of blocks at each level.
    noise : ndarray of float
        The variance of a weight from one block, at each level.
    contexts : ndarray of int
        The number of training contexts at each level.

    Examples
    --------
    >>> plan = DrawPlan("budgeted_clip(4)", 4, 2, 0.0, np.array([1.0]), np.array([1, 3]),
    ...                 np.array([0.1, 0.9]), np.array([50, 50]))
    >>> print(plan)
    draws of each policy per context: 4 to 12, 8 on average, and 2 in the pilot
    standard deviation of a weight from draws: 0.447; with 8 in every context 0.5; with twice
    the draws 0.316
    """

    family: str
    block: int
    pilot: int
    log_beta: float
    edges: Floats
    blocks: Integers
    noise: Floats
    contexts: Integers

    @property
    def mean_draws(self) -> float:
        """Draws of each policy per training context, without the pilot."""
        return float(self.block * np.average(self.blocks, weights=self.contexts))

    @property
    def noise_left(self) -> float:
        """The standard deviation that a weight has from draws, over the training contexts."""
        return float(np.sqrt(np.average(self.noise / self.blocks, weights=self.contexts)))

    @property
    def uniform_noise(self) -> float:
        """What it would be if every context had the same number of draws, as many in all."""
        mean = self.mean_draws / self.block
        return float(np.sqrt(np.average(self.noise, weights=self.contexts) / mean))

    def __str__(self) -> str:
        low, high = (self.block * int(each) for each in (self.blocks.min(), self.blocks.max()))
        return (
            f"draws of each policy per context: {low} to {high}, {self.mean_draws:.3g} on average, "
            f"and {self.pilot} in the pilot\n"
            f"standard deviation of a weight from draws: {self.noise_left:.3g}; with "
            f"{self.mean_draws:.3g} in every context {self.uniform_noise:.3g}; with twice\n"
            f"the draws {self.noise_left / np.sqrt(2):.3g}"
        )

    def count(self, pilot: Proposals) -> Integers:
        """Count the draws of each policy that contexts get.

        Parameters
        ----------
        pilot : Proposals
            Pilot draws in these contexts, which must not be used for anything else.

        Returns
        -------
        ndarray of int
            One number per context, in the order of their labels.
        """
        place, _ = _places(pilot)
        divergence = _divergence(pilot, place, np.ones(len(pilot), dtype=bool))
        return np.asarray(self.block * self.blocks[np.searchsorted(self.edges, divergence)])


def plan_draws(
    proposals: Proposals,
    *,
    beta: float,
    draws: float,
    family: str | Family = "budgeted_clip",
    pilot: int = DRAWS_IN_PILOT,
) -> DrawPlan:
    """Plan the draws of a calibration: more in contexts where weights are noisy.

    Pass the plan to `make_proposals` in place of a number of draws. The guarantee is the same as
    with any fixed number of draws; the module says why.

    Parameters
    ----------
    proposals : Proposals
        Draws of both policies in training contexts: some `pilot` + 2 or more of each policy in each
        context. These contexts must not be the calibration contexts.
    beta : float
        About the beta that is expected, for instance that of a calibration on training rows.
    draws : float
        How many draws of each policy a context may have on average, pilot included.
    family : str or Family, default "budgeted_clip"
        The budgeted clip that will be calibrated.
    pilot : int, default 4
        Draws of each policy in the pilot of a context.

    Returns
    -------
    DrawPlan
        The plan.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, or there are too few draws.

    Examples
    --------
    >>> import tether
    >>> rng = np.random.default_rng(0)
    >>> safe = tether.FunctionPolicy(lambda x, rng: rng.normal(size=len(x)), lambda x, a: -a**2 / 2)
    >>> optimized = tether.FunctionPolicy(
    ...     lambda x, rng: rng.normal(x), lambda x, a: -(a - x)**2 / 2)
    >>> training = rng.uniform(0, 6, size=100)
    >>> proposals = tether.make_proposals(safe, optimized, training, 16, rng)
    >>> plan = plan_draws(proposals, beta=0.01, draws=64, family="budgeted_clip(8)")
    >>> bool(plan.blocks[-1] > 4 * plan.blocks[0])
    True
    """
    if not isinstance(proposals, Proposals):
        raise TypeError(f"proposals must be Proposals, got {type(proposals).__name__}")
    if proposals.context is None:
        raise ValueError("proposals must have contexts: without contexts no weight needs draws")
    log_beta = float(np.log(validate.number("beta", beta, above=0, below=np.inf)))
    first = validate.integer_at_least("pilot", pilot)
    chosen = find_family(family)
    if not isinstance(chosen, BudgetedClip):
        raise ValueError(f"family must be a budgeted clip, whose weights need draws, got {family}")
    block = chosen.max_draws
    mean = validate.number("draws", draws, above=0, below=np.inf)
    if mean < block + first:
        raise ValueError(
            f"draws must be at least {block + first}, a block of {block} and a pilot of {first}, "
            f"got {draws!r}"
        )
    place, rank = _places(proposals)
    in_pilot = rank < first
    counts = [
        np.bincount(place[drawn & ~in_pilot], minlength=place.max() + 1)
        for drawn in (proposals.from_safe, ~proposals.from_safe)
    ]
    if np.min(counts) < 2:
        raise ValueError(
            f"proposals must have at least {first + 2} draws of each policy in every context, got "
            f"{first + int(np.min(counts))}"
        )
    divergence = _divergence(proposals, place, in_pilot)
    noise = _noise_of_block(proposals, place, ~in_pilot, log_beta, block)
    levels = int(np.clip(len(noise) // LEAST_CONTEXTS_PER_LEVEL, 1, MOST_LEVELS))
    edges = np.unique(np.quantile(divergence, np.linspace(0, 1, levels + 1)[1:-1]))
    edges = edges[edges < divergence.max()]  # no level is empty, also where many are equal
    level = np.searchsorted(edges, divergence)
    contexts = np.bincount(level, minlength=len(edges) + 1)
    by_level = np.bincount(level, noise, minlength=len(edges) + 1) / contexts
    blocks = allocate_blocks(by_level, contexts, (mean - first) / block)
    return DrawPlan(chosen.name, block, first, log_beta, edges, blocks, by_level, contexts)


def allocate_blocks(noise: Floats, contexts: Integers, mean: float) -> Integers:
    """Blocks per context of each level: on average at most `mean`, with the least noise.

    One block after the other goes to the level where it lowers the noise of a context most, among
    those that the budget still allows, until the noise is negligible; blocks then go in proportion
    to the square root of the noise. Whole levels may not fill the budget: uniform blocks are taken
    where they leave less noise.
    """
    blocks, left = np.ones(len(noise), dtype=np.int64), mean * contexts.sum() - contexts.sum()
    while True:
        lowered = noise / (blocks * (blocks + 1.0))
        lowered[(contexts > left) | (noise <= blocks * NEGLIGIBLE_NOISE**2)] = 0.0
        best = int(np.argmax(lowered))
        if lowered[best] <= 0:
            break
        blocks[best] += 1
        left -= contexts[best]
    uniform = np.full(len(noise), int(mean), dtype=np.int64)
    negligible = NEGLIGIBLE_NOISE**2
    if (contexts * noise / uniform).sum() < (contexts * (noise / blocks - negligible)).sum():
        return uniform
    return blocks


def _places(proposals: Proposals) -> tuple[Integers, Integers]:
    """The number of each draw's context, and its rank among those of its context and policy."""
    assert proposals.context is not None
    _, place = np.unique(proposals.context, return_inverse=True)
    group = 2 * place + proposals.from_safe
    order = np.argsort(group, kind="stable")
    rank = np.empty(len(group), dtype=np.int64)
    start = np.searchsorted(group[order], group[order])
    rank[order] = np.arange(len(group)) - start
    return place, rank


def _divergence(proposals: Proposals, place: Integers, used: Booleans) -> Floats:
    """Half the difference between mean log ratios under the optimized and under the safe policy.

    An estimate of the mean of both Kullback–Leibler divergences.
    """
    safe, optimized = (
        _means(_log_ratio(proposals), place, used & drawn)
        for drawn in (proposals.from_safe, ~proposals.from_safe)
    )
    return (optimized - safe) / 2


def _noise_of_block(
    proposals: Proposals, place: Integers, used: Booleans, log_beta: float, block: int
) -> Floats:
    """The variance of a weight from one block, averaged over actions of the safe policy."""
    log_ratio, from_safe = _log_ratio(proposals), proposals.from_safe
    proposed_by = from_safe if log_beta < 0 else ~from_safe
    beyond = log_ratio - log_beta
    accept = np.exp(np.minimum(beyond if log_beta < 0 else -beyond, 0.0))
    mean = _means(accept, place, used & proposed_by)
    count = np.bincount(place[used & proposed_by])
    spread = np.maximum(_means(accept**2, place, used & proposed_by) - mean**2, 0.0)
    variance = spread * count / (count - 1)
    _, _, tries_slope, fallback_slope = expected_averages(mean, block)
    kept = np.exp(np.minimum(log_ratio, log_beta) - min(log_beta, 0.0))
    slope = kept * tries_slope[place] + fallback_slope[place]
    return _means(slope**2, place, used & from_safe) * variance / block


def _log_ratio(proposals: Proposals) -> Floats:
    log_ratio = proposals.log_optimized - proposals.log_safe
    return np.asarray(np.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


def _means(values: Floats, place: Integers, used: Booleans) -> Floats:
    """The mean of some of the values in each context."""
    where, contexts = place[used], int(place.max()) + 1
    total = np.bincount(where, values[used], minlength=contexts)
    return np.asarray(total / np.maximum(np.bincount(where, minlength=contexts), 1))
