"""What saved policies refer to by import path in these tests."""

import numpy as np

import tether


def draw(contexts, rng):
    return rng.normal(size=contexts)


def log_density(contexts, actions):
    return -0.5 * np.asarray(actions) ** 2 - 0.5 * np.log(2 * np.pi)


def score(contexts, candidates, slope=1.0):
    return slope * candidates


def flat_logits(contexts):
    return np.zeros((len(contexts), 3)) + np.array([0.0, 1.0, -1.0])


def shifted(by, scale=1.0):
    """A policy with a function that no import path leads to."""
    return tether.Gaussian(lambda contexts: np.asarray(contexts) + by, scale)


class Own:
    """A policy that says itself how it is saved."""

    def __init__(self, policy, table, order):
        self.policy, self.table, self.order = policy, table, order

    def sample(self, contexts, rng):
        return self.policy.sample(contexts, rng) + self.table.sum()

    def log_prob(self, contexts, actions):
        return self.policy.log_prob(contexts, np.asarray(actions) - self.table.sum())

    def tether_save(self):
        return {"policy": self.policy, "table": self.table, "order": self.order}

    @classmethod
    def tether_load(cls, saved):
        return cls(**saved)


class Stranger:
    def sample(self, contexts, rng):
        return rng.normal(size=contexts)

    def log_prob(self, contexts, actions):
        return np.zeros(len(actions))


def network(width=4):
    import torch

    torch.manual_seed(1)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(2, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 3)
            )
            self.register_buffer("shift", torch.zeros(3), persistent=False)

        def forward(self, contexts, candidates):
            return self.layers(torch.as_tensor(contexts, dtype=self.shift.dtype)) + self.shift

    return Net()


def doubled(contexts):
    return 2.0 * np.asarray(contexts)


def cost(contexts, actions):
    return np.abs(np.asarray(actions)) / 4
