"""The token-level tether: two local models, what is calibrated, and what is served."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, labels, length, take
from tether._core.types import Actions, Contexts, Floats, Losses
from tether.control.calibration import Calibration
from tether.control.log import Acting, Log, PolicyPath
from tether.control.proposals import Proposals
from tether.llm.local.causal_policy import CausalPolicy
from tether.llm.local.paired_model import PairedModel
from tether.llm.local.token_rule import TokenRule
from tether.llm.local.token_tethered import TokenTethered
from tether.llm.local.token_walk import score_path
from tether.policies.policy import Policy
from tether.policies.probes import warn_not_useful

DEFAULT_LOG_BETAS = tuple(np.linspace(-12.0, 6.0, 73).tolist())
"""The log betas of a path by default: steps of a quarter."""
DRAWS_PER_POLICY = 32
"""How many proposals each policy of the path draws by default."""


class TokenTether:
    """Two local language models, tethered at every token.

    At each token the probability is min(optimized, β·safe)/ψ, with ψ the exact sum over the
    vocabulary, because both models' logits are there. So an answer takes one draw per token, at
    any length and divergence, can be streamed, and has an exact probability: the product over its
    tokens. That probability is not a function of the two models' scores of the answer, and is
    computed at betas that are fixed beforehand (a `tether.control.PolicyPath`); calibration
    chooses the largest of them such that it and all smaller ones pass.

    The density at an answer moves with beta by up to its length times as much as clip's: the
    smoothness K is between 0 and the number of tokens. The promise does not use that worst case:
    what leaving a row out changes is computed from the rows' own densities, which are exact.

    Parameters
    ----------
    safe, optimized : CausalPolicy
        The two models: adapters of one model, which share batches and the cache, or two models
        with the same vocabulary.
    family : str, default "clip"
        What happens at each token: "clip", or "mix", (safe + β·optimized)/(1 + β).
    log_betas : array_like, optional
        The log betas to choose from, increasing; by default −12 to 6 in steps of a quarter. They
        must not be chosen from losses.
    blend : float, default 0.0
        The share of the safe model in the optimized one at every token. Clip needs it where the
        optimized model gives probability 0 to tokens of the safe one.

    Raises
    ------
    TypeError, ValueError
        If the models cannot be paired, or a setting is out of range.

    Examples
    --------
    >>> tether_of = TokenTether(safe, optimized)  # doctest: +SKIP
    >>> log = tether_of.make_log(prompts, actions, losses)  # doctest: +SKIP
    >>> proposals = tether_of.make_proposals(prompts, rng)  # doctest: +SKIP
    >>> found = tether.calibrate(  # doctest: +SKIP
    ...     log, proposals, alpha=0.1, family=tether_of.family
    ... )
    >>> policy = tether_of.tethered(found)  # doctest: +SKIP
    """

    def __init__(
        self,
        safe: CausalPolicy,
        optimized: CausalPolicy,
        *,
        family: str = "clip",
        log_betas: ArrayLike = DEFAULT_LOG_BETAS,
        blend: float = 0.0,
    ) -> None:
        self.pair, self.rule = PairedModel(safe, optimized), TokenRule(family, blend)
        self.safe, self.optimized = safe, optimized
        path = PolicyPath(self.rule.name, log_betas, np.zeros((1, np.size(log_betas))))
        self.log_betas = path.log_beta

    @property
    def family(self) -> str:
        """The name that `tether.calibrate` takes as its family."""
        return self.rule.name

    def tethered(self, beta: float | Calibration) -> TokenTethered:
        """Return the policy at a beta, to be served.

        Parameters
        ----------
        beta : float or Calibration
            How far the optimized model may pull away at each token; 0 is the safe model.

        Returns
        -------
        TokenTethered
            The policy.

        Raises
        ------
        TypeError, ValueError
            If beta is negative, or was calibrated for another family.
        """
        if isinstance(beta, Calibration):
            if beta.family != self.family:
                raise ValueError(
                    f"this beta was calibrated for family {beta.family!r}, not {self.family!r}: "
                    f"answers tethered at each token have another distribution"
                )
            warn_not_useful(beta)
            return TokenTethered(self.pair, self.rule, beta.log_beta)
        beta = validate.number("beta", beta, above=0, below=np.inf, including=(0, np.inf))
        log_beta = math.log(beta) if beta else -math.inf
        return TokenTethered(self.pair, self.rule, log_beta)

    def make_log(
        self,
        contexts: Contexts,
        actions: Actions,
        losses: Losses,
        *,
        rewards: ArrayLike | None = None,
        logged_by: Policy | None = None,
        acting: Acting | None = None,
    ) -> Log:
        """Score logged completions at every beta and build a `Log` to calibrate on.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        actions : array_like of int, shape (n, max_new_tokens)
            The completions.
        losses : array_like of float, or mapping
            The loss of each completion, or several losses by name.
        rewards : array_like of float, optional
            What each completion brought, for `tether.gain`.
        logged_by : Policy, optional
            The policy that made the completions if it was not the safe model: after several
            rounds, a `tether.Mixture` of the policies that served.
        acting : Acting, optional
            The log-density of each completion under the policy that acted in its row, which a
            `confidence` over several rounds needs.

        Returns
        -------
        Log
            The log, with the density of each completion along the path.
        """
        actions = np.asarray(actions)
        contexts = as_contexts(contexts, actions)
        scores = self.path_scores(contexts, actions)
        return Log(
            losses,
            scores[:, 0],
            scores[:, 1],
            context=labels(contexts),
            log_mix=_logged(logged_by, contexts, actions),
            acting=acting,
            reward=rewards,
            policy_path=PolicyPath(self.family, self.log_betas, scores[:, 2:]),
        )

    def make_proposals(
        self,
        contexts: Contexts,
        rng: np.random.Generator,
        *,
        draws: int = DRAWS_PER_POLICY,
        logged_by: Policy | None = None,
    ) -> Proposals:
        """Draw completions along the path, among which the test weight is found.

        Every policy that may be chosen, the optimized model included, draws completions, each of
        another prompt that is picked at random. With m draws of each, the probability that the next
        completion weighs more than the condition allows is at most 1/(m + 1), however many betas
        there are, if the prompts do not depend on the log (`tether.control.path_weight` has the
        proof, and what holds for prompts of the log itself).

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            Prompts as they will come, one row each: those of the log, or better others, without
            losses. The optimized model must not have been trained on them. A prompt that comes more
            often has more rows.
        rng : numpy.random.Generator
            The source of randomness.
        draws : int, default 32
            How many completions each policy draws; as many as there are rows of prompts, if these
            are fewer. Two draws of one policy in the same row would not be independent.
        logged_by : Policy, optional
            As for `make_log`.

        Returns
        -------
        Proposals
            The draws, with their density along the path.
        """
        validate.generator("rng", rng)
        contexts = as_contexts(contexts)
        prompts = length(contexts)
        draws = min(validate.integer_at_least("draws", draws), prompts)
        levels = np.append(self.log_betas, np.inf)
        drawn_at = np.repeat(levels, draws)
        rows = [rng.choice(prompts, size=draws, replace=False) for _ in levels]
        asked = take(contexts, np.concatenate(rows))
        actions = np.concatenate(
            [
                TokenTethered(self.pair, self.rule, float(level)).sample(
                    take(asked, np.flatnonzero(drawn_at == level)), rng
                )
                for level in levels
            ]
        )
        scores = self.path_scores(asked, actions)
        return Proposals(
            scores[:, 0],
            scores[:, 1],
            context=labels(asked),
            log_mix=_logged(logged_by, asked, actions),
            policy_path=PolicyPath(self.family, self.log_betas, scores[:, 2:], drawn_at=drawn_at),
        )

    def path_scores(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score completions under both models and at every beta, while both read them once.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        actions : array_like of int, shape (n, max_new_tokens)
            One completion per prompt.

        Returns
        -------
        numpy.ndarray of float, shape (n, 2 + betas)
            Log-probabilities under the safe model, the optimized one, and at each of `log_betas`.
        """
        rows = self.tethered(1.0)._tokenized(contexts, actions)
        return score_path(self.pair, self.rule, *rows, self.log_betas)

    def __repr__(self) -> str:
        return f"TokenTether({self.family!r}, {len(self.log_betas)} betas)"


def _logged(logged_by: Policy | None, contexts: Contexts, actions: Actions) -> Floats | None:
    """The scores under the policy that made the rows, if it was not the safe one."""
    if logged_by is None:
        return None
    return policy_calls.score("logged_by", logged_by, contexts, np.asarray(actions))
