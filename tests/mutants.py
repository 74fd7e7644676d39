"""Mutants: changes that break a promise, a share, a chain or a lock, and the tests that see them.

    python -m tests.mutants                 # `make mutants`: every mutant, one after the other
    python -m tests.mutants --only share

Each is applied to a copy of the package, and its tests run on the copy until the first one fails.
A mutant that no test notices survives, and the command exits with 1; one that no longer applies is
named, and counts as one that survives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SECONDS = 300
"""A mutant that makes the tests hang is noticed."""

TABLE = r'''
control/engine.py | tests/control/test_engine.py tests/control/test_stability.py
no test point in the losses
  - np.logaddexp(loss, np.log(bound * error) + top)
  + loss
no test point in the weights
  - np.logaddexp(weight, np.log(error) + top)
  + weight
the last root instead of the first failure
  - at_coarse.argmax(axis=0)
  + len(at_coarse) - at_coarse[::-1].argmin(axis=0) - 1
the first failing fine point instead of the last passing one
  - argmax(axis=0) - 1, 0
  + argmax(axis=0), 0
a tie fails
  - self.value > 0)
  + self.value >= -1e-9)
an infinite beta is never returned
  - np.inf if nested else t
  + t
a tolerance of a tenth
  - self.alpha * (1 + TIE_TOLERANCE)
  + 1.1 * self.alpha
ratio error on the wrong side
  - error, 1 / error
  + 1 / error, error
control/promise.py | tests/control/test_promise.py tests/control/test_stability.py
no stability term
  - max(alpha, bound - alpha) * instability
  + 0.0
stability at alpha only
  - max(alpha, bound
  + min(alpha, bound
no term for what draws do not foresee
  - problem.foreseeing is None or log_beta == -np.inf
  + True
control/calibration.py | tests/control/test_promise.py
the total may exceed the bound
  - min(self.bound, self.alpha + self.stability + self.safe_excess + self.unforeseen)
  + self.alpha + self.stability + self.safe_excess + self.unforeseen
control/promise.py | tests/control/test_stability.py
leaving a row out adds it again
  - - term > ROUNDING
  + + term > ROUNDING
control/mixture.py | tests/control/test_mixture.py src/tether/control/mixture.py
the mixture by log-probabilities
  - np.logaddexp.reduce(table + log_shares, axis=1)
  + (table * np.exp(log_shares)).sum(axis=1)
the last policy does not count in permutation weights
  - log_sums[every ^ bits] + table[-1]
  + log_sums[every ^ bits]
control/chain.py | tests/control/test_chain.py tests/control/test_proved.py
the level at the promise
  - promise - 1 / (stake * (rows + 1))
  + promise
a stake that can be ruined
  - min(sharpness / ((rows + 1) * promise), largest)
  + sharpness / ((rows + 1) * promise)
shares that rise again
  - np.minimum.accumulate(np.asarray(log_capitals, np.float64), axis=-1)
  + np.asarray(log_capitals, np.float64)
a draw serves one candidate too far
  - int(np.count_nonzero(shares >= uniform))
  + min(int(np.count_nonzero(shares >= uniform)) + 1, len(shares))
the unscaled stake of clip without contexts
  - weights.log_high - weights.log_low
  + 0 * weights.log_high
negative factors
  - 1 + 1e-12) &
  + np.inf) &
the largest share of several losses
  - shares.min(axis=0)
  + shares.max(axis=0)
the same draw for every log
  - seed, fingerprint
  + seed
control/confidence.py | tests/control/test_confidence.py
certified at 1/(2 δ)
  - -np.log(error))
  + -np.log(2 * error))
a sequence that does not stop at the first failure
  - np.logical_and.accumulate(certified(capitals, log_shares, error))
  + certified(capitals, log_shares, error)
thresholds/rules.py | tests/thresholds
gCRC passes over a violation
  - np.logical_and.accumulate(passed)
  + np.asarray(passed)
shares are rounded up
  - floor(shares
  + ceil(shares
thresholds/p_values.py | tests/thresholds src/tether/thresholds/p_values.py
bets that peek
  - np.concatenate([np.full((1, losses.shape[1]), 0.25), variance[:-1]])
  + variance
Bentkus without e
  - math.e * binomial
  + binomial
runs/shares.py | tests/runs/test_shares.py src/tether/runs/shares.py
one row too few in Q
  - (rows + 1) * float((values
  + (rows + 2) * float((values
the inside without its plus one
  - (float(inside.sum()) + 1) / (len(inside) + 1)
  + float(inside.sum()) / max(len(inside), 1)
keys that return are not paid for
  - tolerated - low * mean - (1 - low) * old
  + tolerated - old
an old system above what is tolerated
  - risk."""\n    if old >= tolerated:
  + risk."""\n    if old >= 2 * tolerated:
the relative series without the old losses
  - u * (l0 - k) / (n0 - k) if k < min(l0, n0) else 0.0
  + 0.0
added keys get more than is left
  - low + (1 - low / within) * beyond
  + low + beyond
unlimited growth
  - min(share, factor * last + GROWTH_STEP)
  + share
runs/decide_share.py | tests/runs/test_release.py tests/runs/test_processes.py
the largest share of several guardrails
  - state, min(shares.values
  + state, max(shares.values
an alarm that stands does not lower the share
  - return 0.0, f"alarm
  + return share, f"alarm
unknown outcomes of the new system are harmless
  - new, unknown=1.0
  + new, unknown=0.0
what was seen before a tightening counts
  - used = int(last.decision["used"])
  + used = last.number
runs/decide_ramp.py | tests/runs/test_controller_ramps.py
a ramp takes unknown losses for none
  - rows, unknown=1.0
  + rows, unknown=0.0
the reference of a ramp is not asked for
  - (float(known.sum()) + 1) / (len(known) + 1)
  + 0.0
a reference that is chosen is like the safe policy
  - risk = upper_bound(known,
  + risk = risk or upper_bound(known,
runs/watch.py | tests/runs/test_stop.py tests/runs/test_release.py src/tether/runs/watch.py
no restarts
  - np.log(first * (first + 1))
  + np.where(first > 1, np.inf, np.log(2))
a stop without failures
  - < FEWEST_FAILURES
  + < 0
unknown outcomes count against the new system
  - np.zeros(len(rows), bool))
  + np.ones(len(rows), bool))
keys that return are not seen by a relative guardrail
  - self._returned(state, number) if
  + 0 * self._returned(state, number) if
the limit of several guardrails is that of one
  - settings.stop)
  + settings.stop) - 3
runs/event_log.py | tests/runs/test_stop.py tests/runs/test_forged_stores.py tests/runs
a hash without the body
  - state.update(body)
  + state.update(b"")
a hash without what came before
  - head + b"%d
  + b"%d
any event follows
  - is_next and self.head == link(head, *self[:5])
  + is_next
the alarm is not in the transaction that sees the loss
  - self.state.raises) is not None
  + self.state.raises) is None and False
runs/verify.py | tests/runs/test_forged_stores.py tests/runs
verify does not check
  - for each in self._check(event)]
  + for each in ()]
verify believes the index
  - stored != self._index
  + False
runs/state.py | tests/runs/test_release.py tests/runs
a loss may be changed
  - not np.isnan(stored[mine]).all()
  + False
a halt does not stop
  - standing is not None or self.raises
  + raises
withdrawn rows count
  - self.rows["answers"][rows] > 0
  + self.rows["answers"][rows] >= 0
runs/state.py | tests/runs/test_controller.py
training rows calibrate
  - np.flatnonzero(self.rows["calibration"])
  + np.arange(self.rows.size)
runs/decide_beta.py | tests/runs/test_controller.py
losses that are missing are not waited for
  - missing == "wait":
  + missing == "never":
looks are not counted
  - 1 + len(same - {(self.subject, rows)})
  + 1
runs/keys.py | src/tether/runs/keys.py tests/runs/test_release.py
a position that ignores the salt
  - key=salt, person
  + person
'''
"""A file and its tests; a name; a text that occurs in the file once, and what replaces it."""


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    def is_fit(self) -> bool:
        """Whether its text occurs in its file exactly once, and its tests exist."""
        file = ROOT / "src" / "tether" / self.file
        times = file.read_text(encoding="utf-8").count(self.old) if file.is_file() else 0
        return times == 1 and all((ROOT / each).exists() for each in self.tests)


def _read() -> list[Mutant]:
    found, file, tests, name, old = [], "", "", "", ""
    for line in TABLE.strip().splitlines():
        text = line[4:].replace("\\n", "\n")
        if line.startswith("  - "):
            old = text
        elif line.startswith("  + "):
            found.append(Mutant(name, file, old, text, tests.split()))
        elif " | " in line:
            file, tests = line.split(" | ")
        else:
            name = line
    return found


MUTANTS = _read()


def killer(mutant: Mutant) -> str:
    """The test that notices the mutant, or nothing."""
    with tempfile.TemporaryDirectory(prefix="tether-mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "benchmarks", "examples", "experiments"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        file = copy / "src" / "tether" / mutant.file
        file.write_bytes(file.read_bytes().replace(mutant.old.encode(), mutant.new.encode()))
        paths = os.pathsep.join([str(copy / "src"), str(copy)])
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "CI": "1"}
        for which in ("not slow and not nightly", "slow and not nightly"):
            command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", which]
            command.append("--hypothesis-profile=mutants")
            try:
                done = subprocess.run(
                    [*command, *mutant.tests],
                    cwd=copy,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                return "the tests hang"
            if done.returncode == 1:
                return re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)[0]
            if done.returncode not in (0, 5):  # 5: there are no such tests
                raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name or file contains this")
    given = parser.parse_args()
    chosen = [each for each in MUTANTS if given.only in f"{each.name} {each.file}"]
    noticed = 0
    for mutant in chosen:
        begun = time.monotonic()
        seen_by = killer(mutant) if mutant.is_fit() else "DOES NOT APPLY"
        noticed += seen_by not in ("", "DOES NOT APPLY")
        told = f"{seen_by or 'SURVIVES'}, {time.monotonic() - begun:.0f} s"
        print(f"{mutant.file}: {mutant.name}\n    {told}", flush=True)
    print(f"{noticed} of {len(chosen)} mutants are noticed")
    return 0 if noticed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
