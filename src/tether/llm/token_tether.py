"""The token-level tether: two local models between which every single token is tethered.

At a token the probability is that of a family of the package applied to the two distributions of
the next token: clip, min(optimized, β·safe)/ψ, or mix, (safe + β·optimized)/(1 + β). The
normalizing constant ψ of clip after a prefix is a sum over the vocabulary, and as a function of
beta it is piecewise linear: tokens with a ratio up to beta add their optimized probability, all
others beta times their safe one. So one pass that sorts tokens into the intervals between given
betas gives ψ at all of them, exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from tether._core import policy_calls, validate
from tether._core.arrays import Actions, Contexts, Floats, Losses
from tether._core.contexts import as_contexts, labels, length, take
from tether.control.calibration import Calibration
from tether.control.columns import PolicyPath
from tether.control.log import Log, Proposals
from tether.llm.causal_policy import CausalPolicy, LocalPolicy, sum_over_tokens
from tether.llm.completions import SAME_SETTINGS, difference
from tether.llm.lanes import Lanes, Tables
from tether.policies.policy import Policy
from tether.policies.probes import check_probes, take_probes, warn_not_useful

DEFAULT_LOG_BETAS = tuple(np.linspace(-12.0, 6.0, 73).tolist())
"""The log betas of a path by default: steps of a quarter."""
DRAWS_PER_POLICY = 32
"""How many proposals each policy of the path draws by default."""


def log_table(family: str, tables: Tables, log_beta: float) -> Any:
    """The log-probability of every token at one beta (rows × vocabulary)."""
    safe, optimized = (each.double() for each in tables)
    if math.isinf(log_beta):
        return optimized if log_beta > 0 else safe
    if family == "token_mix":
        mixed = torch.logaddexp(safe, optimized + log_beta)
        return mixed - float(np.logaddexp(0.0, log_beta))
    kernel = torch.minimum(optimized, safe + log_beta)
    return kernel - _required(torch.logsumexp(kernel, dim=1, keepdim=True))


def log_densities(family: str, tables: Tables, tokens: Any, log_betas: Floats) -> Any:
    """Log-probabilities of given tokens: safe, optimized, and at every finite beta."""
    safe, optimized = (each.double() for each in tables)
    betas = torch.tensor(np.array(log_betas), device=safe.device)
    at_safe, at_optimized = (each.gather(1, tokens[:, None]) for each in (safe, optimized))
    if family == "token_mix":
        softplus = torch.nn.functional.softplus(betas, threshold=700.0)
        tethered = torch.logaddexp(at_safe, at_optimized + betas) - softplus
    else:
        log_psi = _required(_log_normalizers(safe, optimized, betas))
        tethered = torch.minimum(at_optimized, at_safe + betas) - log_psi
    return torch.cat([at_safe, at_optimized, tethered], dim=1)


def _log_normalizers(safe: Any, optimized: Any, log_betas: Any) -> Any:
    """Log of Σ min(optimized, β·safe) over the vocabulary at every beta (rows × betas)."""
    ratio = torch.nan_to_num(optimized - safe, nan=0.0)  # NaN: neither model's token
    interval = torch.searchsorted(log_betas, ratio.contiguous())  # how many betas are below it
    empty = safe.new_zeros((len(ratio), len(log_betas) + 1))
    unclipped, clipped = (empty.scatter_add(1, interval, each.exp()) for each in (optimized, safe))
    below = unclipped.cumsum(dim=1)[:, :-1]
    above = clipped.flip(1).cumsum(dim=1).flip(1)[:, 1:]
    return torch.logaddexp(below.log(), above.log() + log_betas)


def _required(log_psi: Any) -> Any:
    """The normalizing constants, unless one of them is zero."""
    if torch.isneginf(log_psi).any():
        raise ValueError(
            "no token is possible under both models after some prefix, so clip has no distribution "
            "there: use family 'mix'"
        )
    return log_psi


class TokenTethered(LocalPolicy):
    """A language model between a safe and an optimized one, made by `TokenTether.tethered`.

    One draw per token, no rejection, at any length; the probability of a completion is the product
    over its tokens, so draws and scores are exact.
    """

    def __init__(self, pair: TokenTether, log_beta: float) -> None:
        self.pair, self.log_beta, self._lanes = pair, float(log_beta), pair._lanes
        self.safe, self.optimized, self.family = pair.safe, pair.optimized, pair.family
        for name in ("tokenizer", *SAME_SETTINGS, "vocabulary_size"):
            setattr(self, name, getattr(pair.safe, name))
        lengths = (pair.safe.context_length, pair.optimized.context_length)
        self.context_length = min(filter(None, lengths), default=None)

    @property
    def beta(self) -> float:
        """How far the optimized model may pull away at each token."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: both models, the family and beta."""
        models = f"[{self.safe.fingerprint}] [{self.optimized.fingerprint}]"
        return f"{self.family} {self.log_beta!r} {models}"

    def __repr__(self) -> str:
        return f"TokenTethered(beta={self.beta:.6g}, family={self.family!r})"

    def _log_table(self, tables: Tables) -> Any:
        return log_table(self.family, tables, self.log_beta)


class TokenTether:
    """Two local language models, tethered at every token.

    An answer takes one draw per token, at any length and divergence, can be streamed, and has an
    exact probability: the product over its tokens. That probability is not a function of the two
    models' scores of the answer, and is computed at betas that are fixed beforehand (a
    `tether.control.PolicyPath`); calibration chooses the largest of them such that it and all
    smaller ones pass.

    Parameters
    ----------
    safe, optimized : CausalPolicy
        The two policies: adapters of one model, or two models with the same vocabulary.
    family : str, default "clip"
        What happens at each token: "clip", or "mix", (safe + β·optimized)/(1 + β).
    log_betas : array_like, optional
        The log betas to choose from, increasing; by default −12 to 6 in steps of a quarter. They
        must not be chosen from losses.

    Examples
    --------
    >>> pair = TokenTether(safe, optimized)  # doctest: +SKIP
    >>> log = pair.make_log(prompts, actions, losses)  # doctest: +SKIP
    >>> proposals = pair.make_proposals(prompts, rng)  # doctest: +SKIP
    >>> found = tether.calibrate(  # doctest: +SKIP
    ...     log, proposals, alpha=0.1, family=pair.family
    ... )
    >>> policy = pair.tethered(found)  # doctest: +SKIP
    """

    def __init__(
        self,
        safe: CausalPolicy,
        optimized: CausalPolicy,
        *,
        family: str = "clip",
        log_betas: ArrayLike = DEFAULT_LOG_BETAS,
    ) -> None:
        _check_pair(safe, optimized)
        self.safe, self.optimized = safe, optimized
        self.family = f"token_{validate.choice('family', family, ('clip', 'mix'))}"
        self._lanes = Lanes(safe.local, optimized.local)
        path = PolicyPath(self.family, log_betas, np.zeros((1, np.size(log_betas))))
        self.log_betas = path.log_beta

    def tethered(self, beta: float | Calibration) -> TokenTethered:
        """Return the policy at a beta, or of a calibration, to be served; 0 is the safe model."""
        if isinstance(beta, Calibration):
            if beta.family != self.family:
                raise ValueError(
                    f"this beta was calibrated for family {beta.family!r}, not {self.family!r}: "
                    f"answers tethered at each token have a different distribution"
                )
            check_probes(beta.probes, {"safe": self.safe, "optimized": self.optimized})
            warn_not_useful(beta)
            return TokenTethered(self, beta.log_beta)
        beta = validate.number("beta", beta, above=0, below=np.inf, including=(0, np.inf))
        return TokenTethered(self, math.log(beta) if beta else -math.inf)

    def make_log(
        self,
        contexts: Contexts,
        actions: Actions,
        losses: Losses,
        *,
        rewards: ArrayLike | None = None,
        logged_by: Policy | None = None,
    ) -> Log:
        """Score logged completions at every beta and build a `Log` to calibrate on.

        The arguments are those of `tether.make_log`; `logged_by` is the policy that made the
        completions if it was not the safe model.
        """
        actions = np.asarray(actions)
        contexts = as_contexts(contexts, actions)
        scores = self.path_scores(contexts, actions)
        policies = {"safe": self.safe, "optimized": self.optimized}
        of_each = {"safe": scores[:, 0], "optimized": scores[:, 1]}
        return Log(
            losses,
            scores[:, 0],
            scores[:, 1],
            context=labels(contexts),
            log_mix=_logged(logged_by, contexts, actions),
            reward=rewards,
            policy_path=PolicyPath(self.family, self.log_betas, scores[:, 2:]),
            probes=take_probes(policies, contexts, actions, of_each),
        )

    def make_proposals(
        self,
        contexts: Contexts,
        rng: np.random.Generator,
        *,
        draws: int = DRAWS_PER_POLICY,
        logged_by: Policy | None = None,
    ) -> Proposals:
        """Draw completions along the path, from which the test weight is found.

        Every policy that may be chosen, the optimized model included, draws `draws` completions,
        each for a different prompt picked at random. With m draws of each, the probability that
        the next completion weighs more than the condition allows is at most 1/(m + 1), however many
        betas there are, if the prompts do not depend on the log. The models must not have been
        trained on them.
        """
        validate.generator("rng", rng)
        contexts = as_contexts(contexts)
        prompts = length(contexts)
        draws = min(validate.integer("draws", draws), prompts)
        levels = np.append(self.log_betas, np.inf)
        drawn_at = np.repeat(levels, draws)
        rows = [rng.choice(prompts, size=draws, replace=False) for _ in levels]
        asked = take(contexts, np.concatenate(rows))
        actions = np.concatenate(
            [
                TokenTethered(self, level).sample(take(contexts, picked), rng)
                for level, picked in zip(levels.tolist(), rows, strict=True)
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
        """Score completions: log-probabilities under safe, optimized, and each of `log_betas`."""
        rows = TokenTethered(self, 0.0)._tokenized(contexts, actions)

        def scored(tables: Tables, tokens: Any) -> Any:
            return log_densities(self.family, tables, tokens, self.log_betas)

        return sum_over_tokens(self._lanes, *rows, scored)

    def __repr__(self) -> str:
        return f"TokenTether({self.family!r}, {len(self.log_betas)} betas)"


def _check_pair(safe: CausalPolicy, optimized: CausalPolicy) -> None:
    """Refuse two policies whose completions are not the same actions."""
    for name, each in (("safe", safe), ("optimized", optimized)):
        if not isinstance(each, CausalPolicy):
            raise TypeError(
                f"{name} must be a tether.llm.CausalPolicy, whose probabilities of all tokens are "
                f"known, got {type(each).__name__}"
            )
    sizes = safe.vocabulary_size, optimized.vocabulary_size
    problem = f"vocabularies of {sizes[0]} and {sizes[1]} tokens" if sizes[0] != sizes[1] else ""
    if problem := problem or difference(safe, optimized):
        raise ValueError(f"safe and optimized must have the same tokens: {problem}")


def _logged(logged_by: Policy | None, contexts: Contexts, actions: Actions) -> Floats | None:
    """The scores under the policy that made the rows, if it was not the safe one."""
    if logged_by is None:
        return None
    return policy_calls.score("logged_by", logged_by, contexts, np.asarray(actions))
