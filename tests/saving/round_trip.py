"""Save, load, and compare: bytes, draws and scores."""

import numpy as np

from tether.saving import policy_digest, policy_from_bytes, policy_to_bytes

HERE = "tests.saving.parts"


def round_trip(policy, contexts=6, *, allow_imports=(HERE,), trusted=()):
    """The reloaded policy, after it was found to be the same."""
    data = policy_to_bytes(policy)
    loaded = policy_from_bytes(data, allow_imports=allow_imports, trusted=trusted)
    assert policy_to_bytes(loaded) == data
    assert policy_digest(loaded) == policy_digest(policy)
    same(policy, loaded, contexts)
    return loaded


def same(policy, loaded, contexts):
    drawn = [each.sample(contexts, np.random.default_rng(3)) for each in (policy, loaded)]
    assert drawn[0].dtype == drawn[1].dtype
    assert drawn[0].tobytes() == drawn[1].tobytes()
    if hasattr(policy, "log_prob"):
        scores = [each.log_prob(contexts, drawn[0]) for each in (policy, loaded)]
        assert scores[0].tobytes() == scores[1].tobytes()
