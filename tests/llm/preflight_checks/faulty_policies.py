"""Policies whose samples do not have the probabilities of their scores, and a pair of policies."""

import functools

import numpy as np
import torch

from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["cat", "What is it?", "abc"])


class Cut(CausalPolicy):
    """Draws from the best five tokens, and is scored as if from all."""

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
        few = self.few(best.values)
        return best.indices[:few].numpy(), (best.values[:few] / best.values[:few].sum()).numpy()

    def few(self, shares):
        return 5


class Nucleus(Cut):
    """Draws from the likeliest tokens that hold 0.9 of the probability: top_p."""

    def few(self, shares):
        return int((shares.cumsum(0) < 0.9).sum()) + 1


class Reseeded(CausalPolicy):
    """Begins with the same seed at every row."""

    def sample_scored(self, contexts, rng):
        asked, place = np.unique(contexts, return_inverse=True)
        actions, stated = super().sample_scored(asked, np.random.default_rng(0))
        return actions[place], stated[place]


class EachCall(CausalPolicy):
    """Begins with the same seed at every call."""

    def sample_scored(self, contexts, rng):
        return super().sample_scored(contexts, np.random.default_rng(0))


class Endless(CausalPolicy):
    """Leaves the end token out of the score."""

    def log_prob(self, contexts, actions):
        scores = super().log_prob(contexts, actions)
        actions = np.asarray(actions)
        for row, action in enumerate(actions):
            tokens = [int(each) for each in action if each != -1]
            if tokens[-1] in self.end_token_ids:
                prompt = self.prompts(contexts[row : row + 1])[0]
                scores[row] = tiny_models.one_by_one(self.model, prompt, tokens[:-1])
        return scores


class Warm(CausalPolicy):
    """Scores at another temperature than it samples."""

    drawn_at = 0.5

    def sample_scored(self, contexts, rng):
        other = CausalPolicy(
            self.model,
            self.tokenizer,
            temperature=self.drawn_at,
            max_new_tokens=self.max_new_tokens,
        )
        return other.sample_scored(contexts, rng)


class Hot(Warm):
    drawn_at = 1.6


class Raised(CausalPolicy):
    """Scores everything as likelier than it is."""

    def log_prob(self, contexts, actions):
        return super().log_prob(contexts, actions) + 1.0


def pair(kind=CausalPolicy, scale=0.15):
    words = tiny_models.tokenizer()
    model = tiny_models.llama(scale=scale)
    other = tiny_models.llama(scale=scale, seed=1)
    with torch.no_grad():  # a little of another model, so that the two are near
        for one, two in zip(other.parameters(), model.parameters(), strict=True):
            one.copy_(two + 0.05 * one)
    return kind(model, words, max_new_tokens=5), kind(other, words, max_new_tokens=5)
