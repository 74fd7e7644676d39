"""A new system that is good for most users and harmful for some, released with a router.

The old system fails 1 % of all users. The new one fails 0.5 % of them, but half of one segment in
ten: 5.5 % in all, and at most 2 % are tolerated. Alone, the new system is stopped. A
router that was trained beforehand sends most of that segment to the old system; the
pair is within alpha, and is ramped up to all. Nobody has to trust the router: the pair passes by
its own rows.
"""

import numpy as np

from tether.runs import Release

ALPHA, USERS, STEPS = 0.02, 2_000, 8
LOG = {"failure": np.arange(2_000) < 20}  # what the old system did last week


def fails(is_new, in_segment, rng):
    """Whether each user is failed: the loss."""
    risk = np.where(is_new, np.where(in_segment, 0.5, 0.005), 0.01)
    return (rng.random(len(risk)) < risk).astype(float)


def ramp(router, rng):
    """The share of the new system, or of the pair, and of users that the new system answered."""
    release = Release("sqlite://", {"failure": ALPHA}, old=LOG)
    shares, answered = [], []
    for step in range(STEPS):
        users = [f"user {step * USERS + k}" for k in range(USERS)]
        in_segment = rng.random(USERS) < 0.1
        shares.append(release.share)
        systems = release.assign(users)
        is_new = (np.array(systems) == "new") & release.routes(users, router(in_segment))
        answered.append(is_new.mean())
        release.observe(users, {"failure": fails(is_new, in_segment, rng)}, system=systems)
        release.advance()
    return shares, answered


routers = {
    "no router": lambda in_segment: np.ones(len(in_segment)),
    "router": lambda in_segment: np.where(in_segment, 0.05, 0.95),
}
ramps = {}
print(f"{'share':22}" + "".join(f"{f'step {k + 1}':>9}" for k in range(STEPS)))
for name, router in routers.items():
    ramps[name], answered = ramp(router, np.random.default_rng(2))
    print(f"{name:22}" + "".join(f"{share:9.1%}" for share in ramps[name]))
    print(f"{'  answered by new':22}" + "".join(f"{share:9.1%}" for share in answered))
