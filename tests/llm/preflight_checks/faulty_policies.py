"""Policies whose samples do not have the probabilities of their scores, and a pair of policies."""

import functools

import numpy as np
import torch

from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["cat", "What is it?", "abc"])


class TopFive(CausalPolicy):
    """Samples from the five likeliest tokens, and scores as if from all."""

    def sample_scored(self, contexts, rng):
        best = functools.cache(self.best)
        actions = np.full((len(contexts), self.max_new_tokens), -1)
        for row, prompt in zip(actions, self.prompts(contexts), strict=True):
            seen = prompt
            for step in range(self.max_new_tokens):
                tokens, share = best(seen)
                row[step] = rng.choice(tokens, p=share)
                if row[step] in self.end_token_ids:
                    break
                seen = (*seen, int(row[step]))
        return actions, self.log_prob(contexts, actions)

    def best(self, seen):
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        best = logits.double().softmax(-1).sort(descending=True)
        count = self.count(best.values)
        return best.indices[:count].numpy(), (
            best.values[:count] / best.values[:count].sum()
        ).numpy()

    def count(self, shares):
        return 5


class Nucleus(TopFive):
    """Samples from the likeliest tokens with probability 0.9 together: top_p."""

    def count(self, shares):
        return int((shares.cumsum(0) < 0.9).sum()) + 1


class Penalized(TopFive):
    """Divides the probability of tokens that came before by three, after the first token."""

    def best(self, seen):
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        share = logits.double().softmax(-1)
        share[list(set(seen))] /= 3
        return np.arange(len(share)), (share / share.sum()).numpy()

    def shortened(self, max_new_tokens):
        """The first token is drawn as it is scored."""
        exact = CausalPolicy(self.model, self.tokenizer, max_new_tokens=self.max_new_tokens)
        return exact.shortened(max_new_tokens)


class NeverEnding(Penalized):
    """Never draws the end, as with a minimal number of tokens."""

    def best(self, seen):
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        share = logits.double().softmax(-1)
        share[self.end_token_ids.tolist()] = 0
        return np.arange(len(share)), (share / share.sum()).numpy()


class SeededPerPrompt(CausalPolicy):
    """Uses the same seed for every row of a prompt."""

    def sample_scored(self, contexts, rng):
        distinct, index = np.unique(contexts, return_inverse=True)
        actions, stated = super().sample_scored(distinct, np.random.default_rng(0))
        return actions[index], stated[index]


class SeededPerCall(CausalPolicy):
    """Uses the same seed in every call."""

    def sample_scored(self, contexts, rng):
        return super().sample_scored(contexts, np.random.default_rng(0))


class WithoutEndScore(CausalPolicy):
    """Omits the end token from the score."""

    def log_prob(self, contexts, actions):
        scores = super().log_prob(contexts, actions)
        actions = np.asarray(actions)
        for row, action in enumerate(actions):
            tokens = [int(each) for each in action if each != -1]
            if tokens[-1] in self.end_token_ids:
                prompt = self.prompts(contexts[row : row + 1])[0]
                scores[row] = tiny_models.one_by_one(self.model, prompt, tokens[:-1])
        return scores


class SampledCooler(CausalPolicy):
    """Samples at a lower temperature than it scores."""

    drawn_at = 0.5

    def sample_scored(self, contexts, rng):
        other = CausalPolicy(
            self.model,
            self.tokenizer,
            temperature=self.drawn_at,
            max_new_tokens=self.max_new_tokens,
        )
        return other.sample_scored(contexts, rng)


class SampledHotter(SampledCooler):
    """Samples at a higher temperature than it scores."""

    drawn_at = 1.6


class ScoredTooHigh(CausalPolicy):
    """Scores everything one nat too high."""

    def log_prob(self, contexts, actions):
        return super().log_prob(contexts, actions) + 1.0


def make_pair(kind=CausalPolicy, scale=0.15):
    words = tiny_models.tokenizer()
    model = tiny_models.llama(scale=scale)
    other = tiny_models.llama(scale=scale, seed=1)
    with torch.no_grad():  # mostly the first model, so that the two policies are similar
        for theirs, ours in zip(other.parameters(), model.parameters(), strict=True):
            theirs.copy_(ours + 0.05 * theirs)
    return kind(model, words, max_new_tokens=5), kind(other, words, max_new_tokens=5)
