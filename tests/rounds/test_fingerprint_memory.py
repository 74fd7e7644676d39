"""A policy is the same before and after it has been used."""

import numpy as np

import tether
from tether.rounds.fingerprint import fingerprint


def tethered(beta=0.7):
    return tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.5), beta)


def test_use_leaves_a_fingerprint_alone():
    used = tethered()
    used.log_prob(3, used.sample(3, np.random.default_rng(0)))  # remembers its normalizer
    assert fingerprint(used) == fingerprint(tethered()) != fingerprint(tethered(0.8))


def test_a_store_made_with_a_used_policy_opens_with_a_fresh_one(tmp_path):
    used = tethered()
    used.log_prob(3, used.sample(3, np.random.default_rng(0)))
    tether.Controller(used, alpha=0.2, store=tmp_path / "run.db").close()
    tether.Controller(tethered(), alpha=0.2, store=tmp_path / "run.db").close()
