"""A real small model under a tether.

python -m examples.smollm

Tunes SmolLM2-135M-Instruct for longer sentences, draws from it before and after, calibrates at
several alphas and writes what comes out beside this file. The tuned adapter and the draws are kept
in `work/`, so that a second run only calculates; `--fresh` begins anew.
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
    """Sentences of both policies on every subject, scored under both: what all else rests on."""
    columns: dict[str, list[Any]] = {}
    for block, rng in enumerate(rngs):
        kept = WORK / f"draws-{block}.npz"
        if not kept.exists():
            np.savez(kept, **_drawn(safe, optimized, rng))
        for name, column in np.load(kept).items():
            columns.setdefault(name, []).append(column)
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}


def _drawn(safe: CausalPolicy, optimized: CausalPolicy, rng: np.random.Generator) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {}
    for source, policy, count in (("safe", safe, 120), ("optimized", optimized, 80)):
        subject = np.repeat(np.arange(len(model.PROMPTS)), count)
        prompts = model.PROMPTS[subject]
        actions = policy.sample(prompts, rng)
        log_safe, log_optimized = safe.log_prob_both(optimized, prompts, actions)
        found = {
            "subject": subject,
            "source": np.full(len(subject), source),
            "log_safe": log_safe,
            "log_optimized": log_optimized,
            "loss": model.violations(policy, actions),
            "words": model.words(policy, actions),
            "text": np.array(policy.texts(actions)),
        }
        for name, column in found.items():
            columns.setdefault(name, []).append(column)
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}


def deploy(
    safe: CausalPolicy, optimized: CausalPolicy, draws: Any, rng: np.random.Generator
) -> str:
    """One calibration of each family, really deployed on fresh questions."""
    lines = []
    log, proposals = analysis.tables(draws, rng)[:2]
    prompts = model.PROMPTS[rng.integers(len(model.PROMPTS), size=96)]
    for family in ("clip", "mix"):
        found = tether.calibrate(log, proposals, alpha=0.1, family=family)
        policy = tether.Tethered(safe, optimized, found)
        actions, info = policy.sample_with_info(prompts, rng)
        rate, said = model.violations(safe, actions).mean(), model.words(safe, actions).mean()
        lines += [
            f"{family}, alpha 0.1: beta {found.beta:.3g}, calibrated risk {found.risk:.3f}",
            f"  {info}",
            f"  cut off {rate:.3f} ± {np.sqrt(rate * (1 - rate) / len(prompts)):.3f}, "
            f"{said:.2f} words a sentence",
            *(f"  {opening.split()[-1]}{text}." for opening, text in zip(
                prompts[:4], safe.texts(actions)[:4], strict=True)),
        ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Everything, from the wheel to the picture."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--fresh", action="store_true", help="tune and draw anew")
    fresh = asked.parse_args().fresh
    begun, rng = time.perf_counter(), np.random.default_rng(0)

    def lap(what: str) -> None:
        spent, used = time.perf_counter() - begun, time.process_time()
        print(f"[{spent:5.0f} s, {used:5.0f} s of processors] {what}", flush=True)

    safe, optimized = tune(fresh, rng)
    lap("tuned")
    draws = draw(safe, optimized, [rng, np.random.default_rng(5)])
    lap("drawn and scored")
    rows = analysis.study(draws, np.random.default_rng(1))
    analysis.write(rows, draws, HERE)
    lap("calibrated")
    checked = preflight(safe, optimized, model.PROMPTS, np.random.default_rng(2), draws=8)
    (HERE / "preflight.txt").write_text(f"{checked}\n")
    print(checked)
    lap("preflight")
    told = deploy(safe, optimized, draws, np.random.default_rng(3))
    (HERE / "deployed.txt").write_text(told + "\n")
    print(told)
    lap("deployed")


if __name__ == "__main__":
    main()
