"""A release of four new systems, each from 0 to as much as its losses allow.

An old service has a complaint in 1 of 100 answers, and at most 2 of 100 are tolerated. Four new
ones are tried: a better one, one that is slightly worse but within alpha, one that is worse than
alpha, and one that always does harm. Nobody knows which is which. Every step has 1,000 users. The
promise is on average over releases: the share of the third one goes up and down with its losses.
"""

import numpy as np

import tether

OLD, ALPHA, USERS, STEPS = 0.01, 0.02, 1_000, 7
NEW = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}


def ramp(risk, rng):
    """The share of the new system in each step."""
    log = {"complaint": np.arange(2_000) < 20}  # what the old system did last week
    release = tether.Release("sqlite://", {"complaint": ALPHA}, old=log, salt=b"canary")
    shares = []
    for step in range(STEPS):
        shares.append(release.share)
        users = [f"user {step * USERS + k}" for k in range(USERS)]
        systems = np.array(release.assign(users))
        complaints = rng.random(USERS) < np.where(systems == "new", risk, OLD)
        release.observe(users, {"complaint": complaints.astype(float)})
        release.advance()
    return shares, release.history()


ramps = {}
print(f"{'new system':16}" + "".join(f"{f'step {k + 1}':>9}" for k in range(STEPS)))
for name, risk in NEW.items():
    ramps[name], history = ramp(risk, np.random.default_rng(1))
    print(f"{name:16}" + "".join(f"{share:9.1%}" for share in ramps[name]))
print(f"\nthe last step of the last one: {history.steps[-1].calibration}")
