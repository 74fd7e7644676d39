"""Mutants: changes that break a promise, a share, a chain or a lock, and the tests that see them.

    python -m tests.mutants                 # `make mutants`: every mutant, one after the other
    python -m tests.mutants --only share -n 2

Each is applied to a copy of the package, and the named tests run on the copy, until the first one
fails. A mutant that no test notices survives, and the command exits with 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SECONDS = 900
"""A mutant that makes the tests hang is noticed."""

ENGINE = "tests/control/test_engine.py"
CHAIN = "tests/control/test_chain.py tests/thresholds/test_chain.py"
TERMS = "tests/control/test_promise.py src/tether/_core/promises.py"
CONFIDENCE = "tests/control/test_confidence.py"
STABILITY = "tests/control/test_stability.py"
THRESHOLDS = "tests/thresholds"
SHARES = "src/tether/runs/shares.py src/tether/runs/stop.py tests/runs"
RUNS = "tests/runs"


class Mutant(NamedTuple):
    """A file of the package, a text that occurs in it once, what replaces it, and the tests."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    # ---- the condition: alpha= --------------------------------------------------------------
    Mutant(
        "no test point in the losses",
        "control/engine.py",
        "log_loss = np.logaddexp(loss, np.log(bound * error) + top)",
        "log_loss = loss",
        ENGINE,
    ),
    Mutant(
        "no test point in the weights",
        "control/engine.py",
        "log_limit = log_limit + np.logaddexp(weight, np.log(error) + top)",
        "log_limit = log_limit + weight",
        ENGINE,
    ),
    Mutant(
        "the last root instead of the first failure",
        "control/engine.py",
        "first = np.where(fails[0].any(axis=0), fails[0].argmax(axis=0), points)",
        "first = points - fails[0][::-1].argmin(axis=0)",
        ENGINE,
    ),
    Mutant(
        "the first failing fine point instead of the last passing one",
        "control/engine.py",
        "step = np.where(own.any(axis=1), own.argmax(axis=1), PARTS) - 1",
        "step = np.where(own.any(axis=1), own.argmax(axis=1), PARTS - 1)",
        ENGINE,
    ),
    Mutant(
        "a tie fails",
        "control/engine.py",
        "return np.asarray(self.value > 0)",
        "return np.asarray(self.value >= -1e-9)",
        ENGINE,
    ),
    Mutant(
        "an infinite beta is never returned",
        "control/engine.py",
        "last = np.inf if self.problem.kernel.nested else t[-1]",
        "last = t[-1]",
        ENGINE,
    ),
    Mutant(
        "a tolerance of a tenth",
        "control/engine.py",
        "return np.asarray(loss - self.alpha * (1 + TIE_TOLERANCE) * weight)",
        "return np.asarray(loss - 1.1 * self.alpha * weight)",
        STABILITY,
    ),
    Mutant(
        "ratio error on the wrong side",
        "control/engine.py",
        "return np.where(self.loss(block) > self.alpha, error, 1 / error)",
        "return np.where(self.loss(block) > self.alpha, 1 / error, error)",
        "tests/control",
    ),
    # ---- the terms of alpha= ----------------------------------------------------------------
    Mutant(
        "no stability term",
        "control/promise.py",
        "stability=max(alpha, bound - alpha) * instability,",
        "stability=0.0,",
        "tests/control",
    ),
    Mutant(
        "stability at alpha only",
        "control/promise.py",
        "max(alpha, bound - alpha)",
        "min(alpha, bound - alpha)",
        "tests/control",
    ),
    Mutant(
        "no term for what draws do not foresee",
        "control/promise.py",
        "if problem.foreseeing is None or log_beta == -np.inf:",
        "if True:",
        TERMS,
    ),
    Mutant(
        "the total may exceed the bound",
        "control/promise.py",
        "return min(self.bound, self.alpha + self.stability + self.safe_excess + self.unforeseen)",
        "return self.alpha + self.stability + self.safe_excess + self.unforeseen",
        TERMS,
    ),
    Mutant(
        "leaving a row out adds it again",
        "control/stability.py",
        "part.value[c, which, None] - term > ROUNDING",
        "part.value[c, which, None] + term > ROUNDING",
        STABILITY,
    ),
    Mutant(
        "the mixture by log-probabilities",
        "control/mixture.py",
        "return np.asarray(np.logaddexp.reduce(table + log_shares, axis=1))",
        "return np.asarray((table * np.exp(log_shares)).sum(axis=1))",
        "tests/control/test_mixture_density.py src/tether/control/mixture.py",
    ),
    Mutant(
        "the last policy does not count in permutation weights",
        "control/mixture.py",
        "for point in range(points)]) + table[-1]",
        "for point in range(points)])",
        "tests/control/test_permutation.py src/tether/control/mixture.py",
    ),
    # ---- promise= and confidence= -----------------------------------------------------------
    Mutant(
        "the level at the promise",
        "control/chain.py",
        "return promise - 1 / (stake * (rows + 1)), stake",
        "return promise, stake",
        CHAIN,
    ),
    Mutant(
        "a stake that can be ruined",
        "control/chain.py",
        "stake = min(sharpness / ((rows + 1) * promise), largest)",
        "stake = sharpness / ((rows + 1) * promise)",
        CHAIN,
    ),
    Mutant(
        "shares that rise again",
        "control/chain.py",
        "lowest = np.minimum.accumulate(np.asarray(log_capitals, np.float64), axis=-1)",
        "lowest = np.asarray(log_capitals, np.float64)",
        CHAIN,
    ),
    Mutant(
        "a draw serves one candidate too far",
        "control/chain.py",
        "return int(np.count_nonzero(shares >= uniform))",
        "return min(int(np.count_nonzero(shares >= uniform)) + 1, len(shares))",
        CHAIN,
    ),
    Mutant(
        "the unscaled stake of clip without contexts",
        "control/chain.py",
        "scaled = stake * each.ratio_error * np.exp(weights.log_high - weights.log_low)",
        "scaled = stake * each.ratio_error * np.exp(0 * weights.log_high)",
        "tests/control",
    ),
    Mutant(
        "negative factors",
        "control/chain.py",
        "allowed = (stake * margin <= 1 + 1e-12) & (level >= 0)",
        "allowed = (stake * margin <= np.inf) & (level >= 0)",
        CHAIN,
    ),
    Mutant(
        "the largest share of several losses",
        "control/chain.py",
        "every = shares.min(axis=0)",
        "every = shares.max(axis=0)",
        "tests/control",
    ),
    Mutant(
        "the same draw for every log",
        "control/chain.py",
        "return 1.0 - float(np.random.default_rng([seed, fingerprint]).random())",
        "return 1.0 - float(np.random.default_rng([seed]).random())",
        "tests/control",
    ),
    Mutant(
        "certified at 1/(2 δ)",
        "control/confidence.py",
        "return np.asarray(total >= -np.log(self.error))",
        "return np.asarray(total >= -np.log(2 * self.error))",
        CONFIDENCE,
    ),
    Mutant(
        "a sequence that does not stop at the first failure",
        "control/confidence.py",
        "good = np.logical_and.accumulate(passed, axis=1)",
        "good = np.asarray(passed)",
        CONFIDENCE,
    ),
    # ---- thresholds -------------------------------------------------------------------------
    Mutant(
        "gCRC passes over a violation",
        "thresholds/rules.py",
        "passed = np.logical_and.accumulate(passed)",
        "passed = np.asarray(passed)",
        THRESHOLDS,
    ),
    Mutant(
        "shares are rounded up",
        "thresholds/rules.py",
        "shares = np.floor(shares * SHARE_STEPS) / SHARE_STEPS",
        "shares = np.ceil(shares * SHARE_STEPS) / SHARE_STEPS",
        THRESHOLDS,
    ),
    Mutant(
        "bets that peek",
        "thresholds/p_values.py",
        "past = np.concatenate([np.full((1, losses.shape[1]), 0.25), variance[:-1]])",
        "past = variance",
        THRESHOLDS,
    ),
    Mutant(
        "Bentkus without e",
        "thresholds/p_values.py",
        "math.e * binomial(sums, count, alpha)",
        "binomial(sums, count, alpha)",
        "tests/thresholds src/tether/thresholds/p_values.py",
    ),
    # ---- shares of releases and ramps -------------------------------------------------------
    Mutant(
        "one row too few in Q",
        "runs/shares.py",
        "return (rows + 1) * float((values * half * _WEIGHTS).sum())",
        "return (rows + 2) * float((values * half * _WEIGHTS).sum())",
        SHARES,
    ),
    Mutant(
        "the inside without its plus one",
        "runs/shares.py",
        "mean = (float(inside.sum()) + 1) / (len(inside) + 1)",
        "mean = float(inside.sum()) / max(len(inside), 1)",
        SHARES,
    ),
    Mutant(
        "keys that return are not paid for",
        "runs/shares.py",
        "slack = tolerated - low * mean - (1 - low) * old",
        "slack = tolerated - old",
        SHARES,
    ),
    Mutant(
        "an old system above what is tolerated",
        "runs/shares.py",
        "def fresh_share(losses: Floats, old: float, tolerated: float) -> float:\n"
        '    """The exact share where every row is a fresh key; `old` bounds the old system\'s '
        'risk."""\n    if old >= tolerated:',
        "def fresh_share(losses: Floats, old: float, tolerated: float) -> float:\n"
        '    """The exact share where every row is a fresh key; `old` bounds the old system\'s '
        'risk."""\n    if old >= 2 * tolerated:',
        SHARES,
    ),
    Mutant(
        "the relative series without the old losses",
        "runs/shares.py",
        "following = u * (l0 - k) / (n0 - k) if k < min(l0, n0) else 0.0",
        "following = 0.0",
        SHARES,
    ),
    Mutant(
        "unlimited growth",
        "runs/shares.py",
        "return min(share, factor * last + step)",
        "return share",
        SHARES,
    ),
    Mutant(
        "the largest share of several guardrails",
        "runs/decide_share.py",
        "share = min(shares.values())",
        "share = max(shares.values())",
        RUNS,
    ),
    Mutant(
        "an alarm that stands does not lower the share",
        "runs/decide_share.py",
        'if state.standing is not None:\n        share, reason = 0.0, f"alarm',
        'if state.standing is not None:\n        reason = f"alarm',
        RUNS,
    ),
    Mutant(
        "unknown outcomes of the new system are harmless",
        "runs/decide_share.py",
        "losses = _scaled(state, name, new, unknown=1.0)",
        "losses = _scaled(state, name, new, unknown=0.0)",
        RUNS,
    ),
    Mutant(
        "a ramp takes unknown losses for none",
        "runs/decide_ramp.py",
        "return np.where(np.isnan(losses), 1.0, losses)",
        "return np.where(np.isnan(losses), 0.0, losses)",
        RUNS,
    ),
    Mutant(
        "the reference of a ramp is not asked for",
        "runs/decide_ramp.py",
        "risk = (float(known.sum()) + 1) / (len(known) + 1)",
        "risk = 0.0",
        RUNS,
    ),
    # ---- the stop ---------------------------------------------------------------------------
    Mutant(
        "no restarts",
        "runs/stop.py",
        "held -= np.log(first * (first + 1))",
        "held -= np.where(first > 1, np.inf, np.log(2))",
        SHARES,
    ),
    Mutant(
        "a stop without failures",
        "runs/watch.py",
        "max(self.failures.values()) < FEWEST_FAILURES",
        "max(self.failures.values()) < 0",
        RUNS,
    ),
    Mutant(
        "unknown outcomes count against the new system",
        "runs/watch.py",
        "harmless = is_new if kind == STOP else ~is_new",
        "harmless = ~is_new if kind == STOP else is_new",
        RUNS,
    ),
    Mutant(
        "the limit of several guardrails is that of one",
        "runs/watch.py",
        "limit = math.log(len(self._bets) / settings.stop)",
        "limit = math.log(len(self._bets) / settings.stop) - 3",
        RUNS,
    ),
    # ---- chain, fold, lock ------------------------------------------------------------------
    Mutant(
        "a hash without the body",
        "runs/event_log.py",
        "    state.update(body)\n    return state.digest()",
        "    return state.digest()",
        RUNS,
    ),
    Mutant(
        "a hash without what came before",
        "runs/event_log.py",
        'state = blake2b(head + b"%d %d %s %s\\n"',
        'state = blake2b(b"%d %d %s %s\\n"',
        RUNS,
    ),
    Mutant(
        "any event follows",
        "runs/event_log.py",
        "return self.seq == seq + 1 and self.head == link(head, *self[:5])",
        "return self.seq == seq + 1",
        RUNS,
    ),
    Mutant(
        "the alarm is not in the transaction that sees the loss",
        "runs/event_log.py",
        "if (body := self.state.pending_alarm()) is not None:",
        "if (body := self.state.pending_alarm()) is None and False:",
        RUNS,
    ),
    Mutant(
        "verify does not check",
        "runs/verify.py",
        "for each in self._check(event)]",
        "for each in ()]",
        RUNS,
    ),
    Mutant(
        "verify believes the index",
        "runs/verify.py",
        "if stored != self._index:",
        "if False:",
        RUNS,
    ),
    Mutant(
        "a loss may be changed",
        "runs/state.py",
        "if not np.isnan(stored[mine]).all():",
        "if False:",
        RUNS,
    ),
    Mutant(
        "a halt does not stop",
        "runs/state.py",
        "if self.standing is not None or self.raises is not None:\n            return True",
        "if self.raises is not None:\n            return True",
        RUNS,
    ),
    Mutant(
        "withdrawn rows count",
        "runs/state.py",
        'mine: Booleans = ~self.rows["withdrawn"][rows]',
        'mine: Booleans = np.ones(len(self.rows["withdrawn"][rows]), bool)',
        RUNS,
    ),
    Mutant(
        "losses that are missing are not waited for",
        "runs/decide_beta.py",
        'if settings.missing == "wait":',
        'if settings.missing == "never":',
        RUNS,
    ),
    Mutant(
        "training rows calibrate",
        "runs/decide_beta.py",
        "return np.flatnonzero(self.calibration)",
        "return np.arange(len(self.calibration))",
        RUNS,
    ),
    Mutant(
        "looks are not counted",
        "runs/decide_beta.py",
        "return 1 + len(same - {subject})",
        "return 1",
        RUNS,
    ),
    Mutant(
        "a position that ignores the salt",
        "runs/keys.py",
        "prepared = blake2b(digest_size=8, key=salt, person=purpose)",
        "prepared = blake2b(digest_size=8, person=purpose)",
        "tests/runs src/tether/runs/keys.py",
    ),
]


def unfit(root: Path = ROOT) -> list[str]:
    """The mutants whose text does not occur in its file exactly once."""
    found = []
    for each in MUTANTS:
        file = root / "src" / "tether" / each.file
        times = file.read_text(encoding="utf-8").count(each.old) if file.is_file() else 0
        if times != 1:
            found.append(f"{each.name}: {each.file} has its text {times} times")
    return found


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass although the mutant is there."""
    with tempfile.TemporaryDirectory(prefix="tether-mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "benchmarks", "examples", "experiments"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        file = copy / "src" / "tether" / mutant.file
        file.write_text(
            file.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8"
        )
        paths = os.pathsep.join([str(copy / "src"), str(copy)])
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *mutant.tests.split()],
                cwd=copy,
                env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (0, 1):  # the tests themselves could not be run
            raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name or file contains this")
    parser.add_argument("-n", type=int, default=1, help="how many at a time")
    given = parser.parse_args()
    if wrong := unfit():
        print("\n".join(wrong))
        return 2
    chosen = [each for each in MUTANTS if given.only in f"{each.name} {each.file}"]
    alive = 0
    with ThreadPoolExecutor(given.n) as pool:
        for mutant, survived in zip(chosen, pool.map(survives, chosen), strict=True):
            alive += survived
            print(
                f"{'SURVIVES' if survived else 'noticed '}  {mutant.file}: {mutant.name}",
                flush=True,
            )
    print(f"{len(chosen) - alive} of {len(chosen)} mutants are noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
