"""Hill climbing against the soft chain: `python -m benchmarks.climb`.

Looks for a small world whose expected loss, summed exactly over all logs, is above the promise.
With the level at the promise itself, which is wrong, it has to find one. Exits with 1 otherwise.
"""

from __future__ import annotations

import argparse

from tests.control.test_chain import climbed


def main() -> None:
    """Print the largest expected loss over the promise that was found, for both levels."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.climb", description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--starts", type=int, default=20)
    options = parser.parse_args()
    lengths = {"steps": options.steps, "starts": options.starts}
    right = climbed(lambda promise, stake, rows: promise - 1 / (stake * (rows + 1)), **lengths)
    wrong = climbed(lambda promise, stake, rows: promise, **lengths)
    print(f"expected loss over promise: {right:.4f}; with the level at the promise {wrong:.4f}")
    raise SystemExit(0 if right <= 1 < wrong else 1)


if __name__ == "__main__":
    main()
