"""The policy that is tethered at every token, and itself a policy over completions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tether._core import progress, validate
from tether._core.types import Actions, Contexts, Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import PADDING, Tokens
from tether.llm.local.batched_model import pack_rows
from tether.llm.local.paired_model import PairedModel
from tether.llm.local.token_draws import TokenDraws
from tether.llm.local.token_rule import TokenRule
from tether.llm.local.token_walk import score_path, walk_tokens
from tether.llm.token_tables import TABLE_TOKENS, TokenTables


class TokenTethered(CompletionPolicy):
    """A language model between a safe and an optimized one, tethered at every token.

    The probability of a token after its prefix is min(optimized, β·safe)/ψ (or, with mix,
    (safe + β·optimized)/(1 + β)), where ψ is the sum over the vocabulary. One draw per token, no
    rejection, at any length; the probability of a completion is the product over its tokens, so
    draws and scores are exact. Made by `TokenTether.tethered`.

    Parameters
    ----------
    pair : PairedModel
        The two models.
    rule : TokenRule
        What happens at each token.
    log_beta : float
        Log of beta: −inf is the safe model, inf the optimized one.
    """

    def __init__(self, pair: PairedModel, rule: TokenRule, log_beta: float) -> None:
        self.pair, self.rule, self.log_beta = pair, rule, float(log_beta)
        self.safe, self.optimized = pair.safe, pair.optimized
        self.tokenizer = pair.safe.tokenizer
        self.max_new_tokens = pair.safe.max_new_tokens
        self.end_token_ids = pair.safe.end_token_ids
        self.add_special_tokens = pair.safe.add_special_tokens
        self.vocabulary_size = pair.safe.vocabulary_size
        lengths = [each.context_length for each in (pair.safe, pair.optimized)]
        self.context_length = min((each for each in lengths if each is not None), default=None)

    @property
    def beta(self) -> float:
        """How far the optimized model may pull away at each token."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    @property
    def family(self) -> str:
        """The name of the family, as in a calibration."""
        return self.rule.name

    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities of the draws."""
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        actions = np.full((len(prompts), self.max_new_tokens), PADDING, dtype=np.int64)
        scores = np.zeros(len(prompts))
        sizes = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
        widths = np.full_like(sizes, self.max_new_tokens)
        with (
            self.pair.running(prompts[0]),
            progress.step("drawing completions", total=len(prompts)) as step,
        ):
            for rows in pack_rows(sizes, widths, self.pair.batch_tokens):
                drawing = self._begin([prompts[row] for row in rows])
                while drawing.step(rng):
                    pass
                actions[rows], scores[rows] = drawing.tokens, drawing.scores
                step.advance(len(rows))
        return actions, scores

    def stream(self, contexts: Contexts, rng: np.random.Generator) -> Iterator[Tokens]:
        """Draw one completion per prompt and yield its tokens one by one.

        The models are free for other callers between two tokens. For one prompt the draws are
        those of `sample` with the same generator.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1. All are drawn in one batch.
        rng : numpy.random.Generator
            The source of randomness.

        Yields
        ------
        numpy.ndarray of int, shape (n,)
            The next token of each completion; −1 for those that have ended.
        """
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        with self.pair.running(prompts[0]):
            drawing = self._begin(prompts)
            going_on = drawing.step(rng)
        yield drawing.tokens[:, 0].copy()
        while going_on:
            with self.pair.running(prompts[0], verify=False):
                going_on = drawing.step(rng)
            yield drawing.tokens[:, drawing.position - 1].copy()

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion, exactly: the sum of the log-probabilities of its tokens."""
        finite = np.isfinite(self.log_beta)
        betas = np.array([self.log_beta] if finite else [])
        scores = score_path(self.pair, self.rule, *self._tokenized(contexts, actions), betas)
        return scores[:, 2 if finite else int(self.log_beta > 0)]

    def token_tables(self, contexts: Contexts, actions: Actions) -> TokenTables:
        """Find the likeliest tokens at every position of completions."""
        row, place, likely, log_probs = [], [], [], []
        for rows, position, log_safe, log_optimized, _ in walk_tokens(
            self.pair, *self._tokenized(contexts, actions)
        ):
            table = self.rule.log_table(log_safe, log_optimized, self.log_beta)
            best = table.topk(min(TABLE_TOKENS, table.shape[1]), dim=1)
            row.append(rows)
            place.append(np.full(len(rows), position))
            likely.append(best.indices.cpu().numpy())
            log_probs.append(best.values.cpu().numpy())
        order = np.lexsort((np.concatenate(place), np.concatenate(row)))
        columns = (np.concatenate(part)[order] for part in (row, place, likely, log_probs))
        return TokenTables(*columns)

    def __repr__(self) -> str:
        return f"TokenTethered(beta={self.beta:.6g}, family={self.family!r})"

    def _begin(self, prompts: list[tuple[int, ...]]) -> TokenDraws:
        return TokenDraws(self.pair, self.rule, self.log_beta, prompts, self.max_new_tokens)
