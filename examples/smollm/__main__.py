"""A real small model under a tether.

python -m examples.smollm

Tunes SmolLM2-135M-Instruct for longer sentences, draws from it before and after, calibrates clip,
mix and best of N at several alphas and writes the results beside this file. The model, the tuned
adapter, draws and timings are kept in `work/` as soon as they are made, so that a run that is
stopped goes on where it was; `--fresh` starts again, and `--until` stops after a stage.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm import analysis, best_of_n, draws, latency, model, results, texts
from examples.smollm.draws import Draws

import tether
from tether.llm import CausalPolicy, preflight

HERE = Path(__file__).parent
WORK = HERE / "work"
STAGES = ("tune", "draw", "calibrate", "time", "preflight", "deploy")
TABLES = {"sentences": HERE / "results.csv", "texts": HERE / "texts.csv"}
TEXT_LOG_ROWS = 48

Report = Callable[[str], None]


def tune(rng: np.random.Generator) -> tuple[Any, Any]:
    """The model with its adapter, and the tokenizer."""
    WORK.mkdir(exist_ok=True)
    plain, tokenizer = model.load(WORK / "model")
    if (WORK / "adapter").exists():
        from peft import PeftModel

        return PeftModel.from_pretrained(plain, str(WORK / "adapter")), tokenizer
    pairs = model.preferences(model.policy(plain, tokenizer, None), draws=40, pairs=48, rng=rng)
    print(f"{len(pairs)} pairs, such as {pairs[0]['chosen']!r} over {pairs[0]['rejected']!r}")
    tuned = model.tuned(plain, tokenizer, pairs, epochs=2, rate=1e-3)
    tuned.save_pretrained(str(WORK / "adapter"))
    return tuned, tokenizer


def judged(sentences: Draws) -> Draws:
    """Sentences with their loss and reward."""
    words = np.array([float(len(text.split())) for text in sentences["text"]])
    return {**sentences, "loss": sentences["cut_off"].astype(float), "words": words}


def calibrate(sentences: list[Draws], drawn: list[Draws], paired: Draws) -> None:
    """Write the tables and the figure."""
    rng = np.random.default_rng(1)
    rows = results.policies(draws.joined(sentences)) + analysis.study(sentences, rng)
    for name, score in (("log ratio", best_of_n.log_ratio), ("words", best_of_n.words)):
        rows += best_of_n.study(sentences, name, score, analysis.ALPHAS, analysis.LOG_ROWS, rng)
    longer = results.policies(draws.joined(drawn)) + best_of_n.study(
        drawn, "words", best_of_n.words, texts.ALPHAS, TEXT_LOG_ROWS, rng
    )
    results.write_table(rows, TABLES["sentences"])
    results.write_table(longer, TABLES["texts"])
    results.draw_figure(rows, longer, HERE / "results.png")
    (HERE / "divergence.txt").write_text(texts.describe(paired) + "\n")


def deploy(
    safe: CausalPolicy, optimized: CausalPolicy, drawn: Any, rng: np.random.Generator
) -> str:
    """One calibration of each family, deployed on fresh prompts."""
    lines = []
    log, proposals = analysis.tables(drawn, rng)[:2]
    subjects = rng.integers(len(model.PROMPTS), size=48)
    prompts = model.PROMPTS[subjects]
    for family in ("clip", "mix", "best of 8"):
        if family == "best of 8":  # an old log: seven fresh sentences beside each logged one
            found, logged = tether.Shortlist(safe, optimized, size=8), np.tile(prompts, 2)
            actions = safe.sample(logged, rng)
            log = found.make_log(logged, actions, model.violations(safe, actions), rng)
            calibration = tether.calibrate(log, alpha=0.1)
            policy: Any = found.tethered(calibration)
            actions, info = policy.sample(prompts, rng), f"{8 * len(prompts)} draws in one call"
        else:
            calibration = tether.calibrate(log, proposals, alpha=0.1, family=family)
            policy = tether.Tethered(safe, optimized, calibration)
            actions, info = policy.sample_with_info(prompts, rng)
        rate = model.violations(safe, actions).mean()
        words = model.words(safe, actions).mean()
        lines += [
            f"{family}, alpha 0.1: beta {calibration.beta:.3g}, "
            f"calibrated risk {calibration.binding.risk:.3f}",
            f"  {info}",
            f"  cut off {rate:.3f} ± {np.sqrt(rate * (1 - rate) / len(prompts)):.3f}, "
            f"{words:.2f} words per sentence",
            *(f"  {opening.split()[-1]}{text}." for opening, text in zip(
                prompts[:4], safe.texts(actions)[:4], strict=True)),
        ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Tune, draw, measure, calibrate, check and deploy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fresh", action="store_true", help="tune and draw again")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="the last stage")
    arguments = parser.parse_args()
    stages = STAGES[: STAGES.index(arguments.until) + 1]
    if arguments.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    started = time.perf_counter()

    def report(step: str) -> None:
        spent, used = time.perf_counter() - started, time.process_time()
        print(f"[{spent:5.0f} s, {used:5.0f} s of processors] {step}", flush=True)

    tuned, tokenizer = tune(np.random.default_rng(0))
    report("tuned")
    if "draw" in stages:
        run(stages, tuned, tokenizer, report)


def run(stages: tuple[str, ...], tuned: Any, tokenizer: Any, report: Report) -> None:
    """The stages after tuning."""
    adapters = (None, "default")
    safe, optimized = (model.policy(tuned, tokenizer, each) for each in adapters)
    longer = [model.text_policy(tuned, tokenizer, each) for each in adapters]
    sentences = [judged(block) for block in draws.sentences(safe, optimized, WORK, report)]
    drawn, paired = draws.texts(*longer, WORK, report)
    report("drawn and scored")
    if "calibrate" in stages:
        calibrate(sentences, [texts.judged(block) for block in drawn], paired)
        report("calibrated")
    if "time" in stages:
        for name, pair, answers in (("sentences", (safe, optimized), 4), ("texts", longer, 1)):
            kept = WORK / f"latency-{name}.json"
            measured = latency.measure(
                *pair, kept, report, answers=answers, with_clip=name == "sentences"
            )
            results.add_latencies(measured, TABLES[name])
            print(results.as_markdown(TABLES[name]), flush=True)
        report("timed")
    if "preflight" in stages:
        result = preflight(safe, optimized, model.PROMPTS, np.random.default_rng(2), draws=8)
        (HERE / "preflight.txt").write_text(f"{result}\n")
        print(result)
        report("preflight")
    if "deploy" in stages:
        deployed = deploy(safe, optimized, sentences[0], np.random.default_rng(3))
        (HERE / "deployed.txt").write_text(deployed + "\n")
        print(deployed)
        report("deployed")


if __name__ == "__main__":
    main()
