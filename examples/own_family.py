"""A family of one's own: the geometric path between two policies, calibrated and served.

The tethered density is safe^(1−s) · optimized^s / ψ with s = β/(1 + β). Three members suffice: the
kernel, which calibration needs, and the share of proposals from the optimized policy with their
acceptance probability, which sampling beyond finite action sets needs.
"""

import numpy as np

import tether


class Geometric(tether.control.Family):
    """The kernel safe^(1−s) · optimized^s, with s = β/(1 + β)."""

    name = "geometric"

    def log_kernel(self, log_safe, log_optimized, log_beta):
        """The weighted average of the two log-densities."""
        log_safe_share, log_share = log_shares(log_beta)
        return np.exp(log_safe_share) * log_safe + np.exp(log_share) * log_optimized

    def optimized_share(self, log_beta):
        """Propose from the optimized policy with probability s."""
        return float(np.exp(log_shares(log_beta)[1]))

    def log_accept(self, log_ratio, log_beta):
        """Kernel over (1 − s)·safe + s·optimized, a weighted geometric over an arithmetic mean."""
        log_safe_share, log_share = log_shares(log_beta)
        log_proposal = np.logaddexp(log_safe_share, log_share + log_ratio)
        return np.minimum(np.exp(log_share) * log_ratio - log_proposal, 0.0)


def log_shares(log_beta):
    """Logs of 1 − s and of s."""
    return -np.logaddexp(0.0, log_beta), -np.logaddexp(0.0, -log_beta)


def harmful(actions):
    """The loss of an action: 1 above 1.5, else 0."""
    return (actions > 1.5).astype(float)


rng = np.random.default_rng(0)
safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
logged = safe.sample(2_000, rng)
log = tether.make_log(safe, optimized, None, logged, harmful(logged))
proposals = tether.make_proposals(safe, optimized, None, 2_000, rng)

family = Geometric()
found = tether.calibrate(log, proposals, alpha=0.1, family=family)
policy = tether.Tethered(safe, optimized, found, family=family)
actions, info = policy.sample_with_info(20_000, rng)
served, error = harmful(actions).mean(), harmful(actions).std() / np.sqrt(len(actions))

print(found)
print(info)
print(f"beta               {found.beta:.3f}")
print(f"promise            expected loss ≤ {found.promise:.4f}")
verdict = "within" if served <= found.promise + 3 * error else "above"
print(f"mean loss served   {served:.4f} ± {error:.4f}, {verdict} the promise")
