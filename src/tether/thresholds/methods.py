"""Four methods that choose a threshold, and the soft chain.

CRC, gCRC and CRC on losses made monotone differ in which sums they read and where they stop; all
count the test item at the bound. Learn then Test promises with a probability. The soft chain
(`gcrc` with `promise=`) holds a promise that the user names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.typing import ArrayLike

from tether._core import validate
from tether.thresholds.claims import PerItem
from tether.thresholds.rules import Chain, LearnThenTest, Rule
from tether.thresholds.select import select
from tether.thresholds.selection import Selection
from tether.thresholds.sweep import LossInput, LossNames, PerLoss


def gcrc(
    losses: LossInput | Mapping[str, LossInput],
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss | None = None,
    promise: PerLoss | None = None,
    bound: PerLoss | None = None,
    loss: LossNames = None,
    weights: PerItem | None = None,
    test_weight: float | None = None,
    groups: PerItem | None = None,
    lipschitz: float | None = None,
    spread: bool = False,
    seed: int = 0,
) -> Selection:
    """Choose the boldest threshold such that it and every safer one have conservative risk ≤ alpha.

    The conservative risk counts the test item at the bound: (Σ loss + bound) / (n + 1). Promised,
    on average over calibration sets, for exchangeable items: expected loss ≤ alpha + stability +
    existence. Stability pays for the dependence of the threshold on single items (0 where losses
    are monotone), existence for data on which nothing passes; both are estimated from the items.

    With `promise` instead of `alpha` the threshold is drawn by the soft chain, which is another
    rule: expected loss ≤ promise, for independent items whose number was fixed beforehand, with a
    proof and no estimated term, if the safest threshold itself costs little enough (always, where
    it keeps nothing).

    Parameters
    ----------
    losses : array_like, Claims, ScoredLabels, Sweep or mapping
        A loss matrix (items × thresholds, with the safest threshold last), claims, scored labels,
        a sweep of any of these, or several of them by name.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a matrix
        the column numbers.
    alpha : float, sequence or mapping, optional
        The tolerated expected loss: one for all losses, or one per loss, in order or by name.
    promise : float, sequence or mapping, optional
        The bound to be held, instead of `alpha`, for items without weights.
    bound : float, sequence or mapping, optional
        The largest possible loss, 1 by default; one for all losses, or one per loss.
    loss : str, callable or sequence, optional
        The loss of claims ("fdr", the default, "any_false", "miss", `FalseAmongShown`, or a
        function of two boolean arrays, `loss(supported, kept)`) or of labels ("false_positive",
        "false_negative", and for `ltt` "false_discovery"), or several of them.
    weights : array_like or mapping, optional
        One importance weight per item, for a known shift; by name where items have names.
    test_weight : float, optional
        An upper bound on the weight of any item, on the scale of `weights`. By default the largest
        of them, and then nothing is promised.
    groups : array_like or mapping, optional
        The group of each item, for one threshold and one promise per group; by name where items
        have names. Within a group of n items nothing passes unless bound / (n + 1) ≤ alpha.
    lipschitz : float, optional
        K, if it is known: the stability term is then K times the mean move of the threshold when
        one item is replaced.
    spread : bool, default False
        With `promise`, whether a threshold is drawn for each item when claims are filtered, rather
        than once for all.
    seed : int, default 0
        With `promise`, what the draw is made from, together with a hash of the losses.

    Returns
    -------
    Selection
        The threshold and what is promised for it. Where no threshold passes, `exists` is False.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(5000)
    >>> claims = tether.Claims(scores, rng.random(5000) < scores, np.arange(0, 5001, 5))
    >>> found = tether.gcrc(claims, alpha=0.1)
    >>> bool(0.7 < found.threshold < 0.9), found.risk <= 0.1, found.monotone
    (True, True, False)
    >>> tether.gcrc(claims, promise=0.1).promise
    0.1
    """
    validate.one_target(alpha, promise)
    if (spread or seed) if promise is None else lipschitz is not None:
        raise ValueError(
            "lipschitz goes with alpha, spread and seed with promise: got "
            f"lipschitz = {lipschitz}, spread = {spread} and seed = {seed}"
        )
    if lipschitz is not None:
        lipschitz = validate.number("lipschitz", lipschitz, above=0, below=float("inf"))
    rule = Rule("gCRC", lipschitz=lipschitz)
    if promise is not None:
        seed = validate.integer("seed", seed, minimum=0)
        rule = Chain(spread=bool(spread), seed=seed)
    level = alpha if promise is None else promise
    return select(rule, losses, thresholds, level, bound, loss, groups, weights, test_weight)


def crc(
    losses: LossInput | Mapping[str, LossInput],
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss,
    bound: PerLoss | None = None,
    loss: LossNames = None,
    weights: PerItem | None = None,
    test_weight: float | None = None,
    groups: PerItem | None = None,
) -> Selection:
    """Choose the boldest threshold with conservative risk ≤ alpha, whether or not safer ones pass.

    Promised, on average over calibration sets: expected loss ≤ alpha + existence, for exchangeable
    items whose losses never fall as the threshold gets bolder. Where losses can fall, as the share
    of false claims of an item with several claims, nothing is promised.

    Parameters
    ----------
    losses, thresholds, alpha, bound, loss, weights, test_weight, groups
        As in `gcrc`, and so is what is returned ("Conformal Risk Control", ICLR 2024).

    Examples
    --------
    >>> import numpy as np, tether
    >>> scored = tether.ScoredLabels(np.arange(100) / 100, np.arange(100) >= 40)
    >>> crc(scored, alpha=0.2, loss="false_positive").threshold
    0.33
    """
    rule = Rule("CRC")
    return select(rule, losses, thresholds, alpha, bound, loss, groups, weights, test_weight)


def monotonized_crc(
    losses: LossInput | Mapping[str, LossInput],
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss,
    bound: PerLoss | None = None,
    loss: LossNames = None,
    weights: PerItem | None = None,
    test_weight: float | None = None,
    groups: PerItem | None = None,
) -> Selection:
    """Apply CRC to each item's largest loss at any threshold at least as safe.

    Promised, on average over calibration sets: expected loss ≤ alpha + existence, for exchangeable
    items and any losses. The price is that an item counts with its largest loss so far: a false
    claim at the top is never made up for by true ones below it.

    Parameters
    ----------
    losses, thresholds, alpha, bound, loss, weights, test_weight, groups
        As in `gcrc`, and so is what is returned ("Conformal Risk Control", ICLR 2024).

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([0.1, 0.3, 0.0], (99, 1))  # safest last
    >>> crc(losses, alpha=0.2).threshold, monotonized_crc(losses, alpha=0.2).threshold
    (0.0, 2.0)
    """
    rule = Rule("monotonized CRC", envelope=True)
    return select(rule, losses, thresholds, alpha, bound, loss, groups, weights, test_weight)


def ltt(
    losses: LossInput | Mapping[str, LossInput],
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss,
    bound: PerLoss | None = None,
    loss: LossNames = None,
    confidence: float = 0.9,
    procedure: str = "fixed_sequence",
    pvalue: str | None = None,
    groups: PerItem | None = None,
) -> Selection:
    """Choose the boldest threshold that testing shows to have risk ≤ alpha (Learn then Test).

    Promised: with probability at least `confidence` over the calibration items, the risk at the
    threshold is at most alpha, for independent, identically distributed items with losses in
    [0, bound]; where no threshold passes, nothing is promised about the safest.

    Parameters
    ----------
    losses, thresholds, alpha, bound, loss, groups
        As in `gcrc`.
    confidence : float, default 0.9
        The probability, over the calibration items, with which the promise holds: 1 − δ.
    procedure : str, default "fixed_sequence"
        How the tests are combined: "fixed_sequence" tests from the safest threshold on and stops at
        the first failure; "bonferroni" needs thresholds chosen before seeing the data.
    pvalue : str, optional
        "betting" (Waudby-Smith and Ramdas; with more than 2,000 items at one fixed stake),
        "binomial", exact for losses that are 0 or the bound, or "hoeffding_bentkus". By default
        "binomial" for losses that are 0 or 1 by definition, such as "any_false" and a boolean
        matrix, otherwise "betting".

    Examples
    --------
    >>> import numpy as np, tether
    >>> scored = tether.ScoredLabels(np.arange(1000) / 1000, np.arange(1000) >= 400)
    >>> found = ltt(scored, alpha=0.2, loss="false_positive")
    >>> found.threshold, round(found.risk, 3)
    (0.331, 0.172)
    """
    confidence = validate.number("confidence", confidence, above=0, below=1)
    validate.choice("procedure", procedure, ("fixed_sequence", "bonferroni"))
    if pvalue is not None:
        validate.choice("pvalue", pvalue, ("betting", "binomial", "hoeffding_bentkus"))
    rule = LearnThenTest(confidence=confidence, procedure=procedure, pvalue=pvalue)
    return select(rule, losses, thresholds, alpha, bound, loss, groups)


METHODS: dict[str, Callable[..., Selection]] = {
    "gcrc": gcrc,
    "chain": lambda losses, alpha, **options: gcrc(losses, promise=alpha, **options),
    "crc": crc,
    "monotonized_crc": monotonized_crc,
    "ltt": ltt,
}
"""The methods by name, for a user who chooses one: all of them take `alpha`."""
