"""The long Monte Carlo: the risk that is really deployed beside what was promised.

`make validity` prints one line for each world and procedure; `benchmarks.validity_table` says what
the columns are and what must hold. True risks are sums or integrals, not estimates.

    python -m benchmarks.validity --part draws --repeats 0.5
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks import (
    validity_best_of_n,
    validity_confidence,
    validity_controller,
    validity_draws,
    validity_families,
    validity_promises,
    validity_shortlists,
    validity_tokens,
)
from benchmarks.validity_table import run_table

PARTS = {
    "families": validity_families.cases,
    "draws": validity_draws.cases,
    "shortlists": validity_shortlists.cases,
    "tokens": validity_tokens.cases,
    "languages": validity_best_of_n.cases,
    "promises": validity_promises.cases,
    "confidence": validity_confidence.cases,
    "controller": validity_controller.cases,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="all of them by default")
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    parser.add_argument("--repeats", type=float, default=1.0, help="a factor on the runs of a case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", action="store_true", help="say how long each case takes")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    chosen = [case for part in arguments.part or PARTS for case in PARTS[part]()]
    chosen = [case for case in chosen if arguments.only in case.world]
    good = run_table(chosen, arguments.repeats, arguments.workers, times=arguments.times)
    print(f"\n{time.perf_counter() - begun:.0f} s")
    print("Every right procedure held, each wrong one failed." if good else "SOMETHING IS OFF.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
