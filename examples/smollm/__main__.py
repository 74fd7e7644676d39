"""A real small model under a tether: `python -m examples.smollm`.

Tunes SmolLM2-135M-Instruct for longer sentences, checks both policies, calibrates clip, mix and
best of 8, and serves each on fresh prompts. The tuned adapter is kept in `work/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm import model

import tether
from tether.llm import preflight

HERE = Path(__file__).parent
WORK = HERE / "work"
ALPHA, ROWS, FRESH = 0.1, 200, 48


def tune(rng: np.random.Generator) -> tuple[Any, Any]:
    """The model with its adapter, and the tokenizer."""
    WORK.mkdir(exist_ok=True)
    plain, tokenizer = model.load()
    if (WORK / "adapter").exists():
        from peft import PeftModel

        return PeftModel.from_pretrained(plain, str(WORK / "adapter")), tokenizer
    pairs = model.preferences(model.policy(plain, tokenizer, None), draws=40, pairs=48, rng=rng)
    print(f"{len(pairs)} pairs, such as {pairs[0]['chosen']!r} over {pairs[0]['rejected']!r}")
    tuned = model.tuned(plain, tokenizer, pairs, epochs=2, rate=1e-3)
    tuned.save_pretrained(str(WORK / "adapter"))
    return tuned, tokenizer


def served(family: str, safe: Any, optimized: Any, rng: np.random.Generator) -> list[str]:
    """Calibrate one family on a log of the safe policy, and serve it."""
    prompts = model.PROMPTS[rng.integers(len(model.PROMPTS), size=ROWS)]
    actions = safe.sample(prompts, rng)
    losses = model.violations(safe, actions)
    if family == "best of 8":  # seven fresh sentences beside each logged one
        shortlist = tether.Shortlist(safe, optimized, size=8)
        found = tether.calibrate(shortlist.make_log(prompts, actions, losses, rng), alpha=ALPHA)
        policy: Any = shortlist.tethered(found)
    else:
        log = tether.make_log(safe, optimized, prompts, actions, losses)
        proposals = tether.make_proposals(safe, optimized, prompts, 4, rng)
        found = tether.calibrate(log, proposals, alpha=ALPHA, family=family)
        policy = tether.Tethered(safe, optimized, found)
    fresh = model.PROMPTS[rng.integers(len(model.PROMPTS), size=FRESH)]
    actions = policy.sample(fresh, rng)
    rate, words = model.violations(safe, actions).mean(), model.words(safe, actions).mean()
    shown = zip(fresh[:4], safe.texts(actions)[:4], strict=True)
    return [
        f"{family}, alpha {ALPHA:g}: beta {found.beta:.3g}, "
        f"calibrated risk {found.binding.risk:.3f}",
        f"  cut off {rate:.3f} ± {np.sqrt(rate * (1 - rate) / FRESH):.3f}, "
        f"{words:.2f} words per sentence",
        *(f"  {opening.split()[-1]}{text}." for opening, text in shown),
    ]


def main() -> None:
    """Tune, check, calibrate and serve."""
    tuned, tokenizer = tune(np.random.default_rng(0))
    safe, optimized = (model.policy(tuned, tokenizer, each) for each in (None, "default"))
    checked = preflight(safe, optimized, model.PROMPTS, np.random.default_rng(2), draws=8)
    (HERE / "preflight.txt").write_text(f"{checked}\n")
    print(checked)
    rng, lines = np.random.default_rng(3), []
    for family in ("budgeted_clip(4)", "best of 8"):
        lines += served(family, safe, optimized, rng)
        print(*lines[-6:], sep="\n", flush=True)
    (HERE / "deployed.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
