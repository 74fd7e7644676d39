"""A real small model under a tether.

python -m examples.smollm

Tunes SmolLM2-135M-Instruct for longer sentences, draws from it before and after, calibrates at
several alphas and writes the results beside this file. The tuned adapter and the draws are kept in
`work/`, so that a second run reuses them; `--fresh` starts again.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm import analysis, model

import tether
from tether.llm import CausalPolicy, preflight

HERE = Path(__file__).parent
WORK = HERE / "work"


def tune(fresh: bool, rng: np.random.Generator) -> tuple[CausalPolicy, CausalPolicy]:
    """The safe and the optimized policy: one model, without and with its adapter."""
    plain, tokenizer = model.load()
    if fresh or not (WORK / "adapter").exists():
        shutil.rmtree(WORK, ignore_errors=True)
        pairs = model.preferences(model.policy(plain, tokenizer, None), draws=40, pairs=48, rng=rng)
        print(f"{len(pairs)} pairs, such as {pairs[0]['chosen']!r} over {pairs[0]['rejected']!r}")
        tuned = model.tuned(plain, tokenizer, pairs, epochs=2, rate=1e-3)
        tuned.save_pretrained(str(WORK / "adapter"))
    else:
        from peft import PeftModel

        tuned = PeftModel.from_pretrained(plain, str(WORK / "adapter"))
    return model.policy(tuned, tokenizer, None), model.policy(tuned, tokenizer, "default")


def draw(safe: CausalPolicy, optimized: CausalPolicy, rngs: list[Any]) -> dict[str, np.ndarray]:
    """Sentences of both policies on every subject, scored under both policies."""
    columns: dict[str, list[Any]] = {}
    for block, rng in enumerate(rngs):
        path = WORK / f"draws-{block}.npz"
        if not path.exists():
            np.savez(path, **_score_draws(safe, optimized, rng))
        for name, column in np.load(path).items():
            columns.setdefault(name, []).append(column)
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}


def _score_draws(
    safe: CausalPolicy, optimized: CausalPolicy, rng: np.random.Generator
) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {}
    for source, policy, count in (("safe", safe, 120), ("optimized", optimized, 80)):
        subject = np.repeat(np.arange(len(model.PROMPTS)), count)
        prompts = model.PROMPTS[subject]
        actions = policy.sample(prompts, rng)
        log_safe, log_optimized = safe.log_prob_both(optimized, prompts, actions)
        drawn = {
            "subject": subject,
            "source": np.full(len(subject), source),
            "log_safe": log_safe,
            "log_optimized": log_optimized,
            "loss": model.violations(policy, actions),
            "words": model.words(policy, actions),
            "text": np.array(policy.texts(actions)),
        }
        for name, column in drawn.items():
            columns.setdefault(name, []).append(column)
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}


def deploy(
    safe: CausalPolicy, optimized: CausalPolicy, draws: Any, rng: np.random.Generator
) -> str:
    """One calibration of each family, deployed on fresh prompts."""
    lines = []
    log, proposals = analysis.tables(draws, rng)[:2]
    prompts = model.PROMPTS[rng.integers(len(model.PROMPTS), size=96)]
    for family in ("clip", "mix"):
        calibration = tether.calibrate(log, proposals, alpha=0.1, family=family)
        policy = tether.Tethered(safe, optimized, calibration)
        actions, info = policy.sample_with_info(prompts, rng)
        rate = model.violations(safe, actions).mean()
        words = model.words(safe, actions).mean()
        lines += [
            f"{family}, alpha 0.1: beta {calibration.beta:.3g}, "
            f"calibrated risk {calibration.risk:.3f}",
            f"  {info}",
            f"  cut off {rate:.3f} ± {np.sqrt(rate * (1 - rate) / len(prompts)):.3f}, "
            f"{words:.2f} words per sentence",
            *(f"  {opening.split()[-1]}{text}." for opening, text in zip(
                prompts[:4], safe.texts(actions)[:4], strict=True)),
        ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Tune, draw, calibrate, check and deploy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fresh", action="store_true", help="tune and draw again")
    fresh = parser.parse_args().fresh
    started, rng = time.perf_counter(), np.random.default_rng(0)

    def report(step: str) -> None:
        spent, used = time.perf_counter() - started, time.process_time()
        print(f"[{spent:5.0f} s, {used:5.0f} s of processors] {step}", flush=True)

    safe, optimized = tune(fresh, rng)
    report("tuned")
    draws = draw(safe, optimized, [rng, np.random.default_rng(5)])
    report("drawn and scored")
    rows = analysis.study(draws, np.random.default_rng(1))
    analysis.write(rows, draws, HERE)
    report("calibrated")
    result = preflight(safe, optimized, model.PROMPTS, np.random.default_rng(2), draws=8)
    (HERE / "preflight.txt").write_text(f"{result}\n")
    print(result)
    report("preflight")
    deployed = deploy(safe, optimized, draws, np.random.default_rng(3))
    (HERE / "deployed.txt").write_text(deployed + "\n")
    print(deployed)
    report("deployed")


if __name__ == "__main__":
    main()
