"""Where a mixture proposal is best: no action has a ratio near beta.

Accept-reject sampling from the safe policy needs the envelope beta, and from the optimized policy
the envelope 1. Both are tight if some action is about beta times as likely under the optimized
policy. Here none is: short answers become half as likely, long ones three times as likely, and beta
is 1. The lowest envelope then belongs to a mixture of the two policies, which the joint grid finds.
"""

import numpy as np

import tether


def make_policy(short):
    """Lengths of answers: below 1 with probability `short`, else between 1 and 2."""
    log_density = np.log([short, 1 - short])
    return tether.FunctionPolicy(
        sample=lambda n, rng: rng.random(n) + (rng.random(n) >= short),
        log_prob=lambda n, lengths: log_density[(lengths >= 1).astype(int)],
    )


safe, optimized = make_policy(short=0.8), make_policy(short=0.4)  # ratios 1/2 and 3 around beta 1
rng = np.random.default_rng(0)
print("proposals from       weight  acceptance  draws for 100,000 actions")
for sampler in ("safe", "optimized", "overlap", "adaptive", "grid"):
    policy = tether.Tethered(safe, optimized, 1.0, sampler=sampler)
    _, info = policy.sample_with_info(100_000, rng)
    weight = {"safe": 1.0, "optimized": 0.0}.get(sampler, info.safe_weight)
    print(f"{sampler:<20} {weight:6.3f}  {info.acceptance:10.3f}  {info.draws:>10,}")
