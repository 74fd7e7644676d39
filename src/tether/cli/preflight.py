"""`tether preflight`: whether the log-probabilities of two language models can be trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from tether._core.extras import require
from tether.cli.terminal import (
    NOTHING_PASSES,
    SAVING,
    JsonOption,
    Options,
    Output,
    argument,
    command,
    refuse,
)

PREFLIGHT: Options = {
    "safe": (str, ..., "The folder of the safe model, or its name on the server."),
    "optimized": (str, ..., "The folder of a model or PEFT adapter, or its name on the server."),
    "base_url": (str | None, None, "A completions server, e.g. http://localhost:8000/v1."),
    "optimized_url": (str | None, None, "The optimized model's server. (default: --base-url)"),
    "tokenizer": (str | None, None, "The folder of the tokenizer. (default: each model's own)"),
    "eos": (list[int] | None, None, "The ids of end-of-sequence tokens. (default: the model's)"),
    "key_variable": (str, "OPENAI_API_KEY", "The environment variable with the server's key."),
    "add_special_tokens": (bool, False, "Let the tokenizer add its special tokens."),
    "max_new_tokens": (int, 64, "The most tokens in a completion."),
    "temperature": (float, 1.0, "The softmax temperature; local models only."),
    "draws": (int, 16, "The number of completions per prompt."),
    "seed": (int, 0, "The seed of all draws."),
}


@command(given=PREFLIGHT, saving=SAVING)
def preflight(
    prompts: Annotated[Path, argument("Prompts: a text file with one per line.")],
    given: Any,
    saving: Any,
    as_json: JsonOption = False,
) -> int:
    """Check two language models before relying on their log-probabilities.

    The exit code is 3 if a check fails.
    """
    base_url, tokenizer, temperature = map(given.get, ("base_url", "tokenizer", "temperature"))
    require("tether preflight", "transformers" if base_url is None else "openai")
    from tether.llm import preflight as run_preflight

    saved, models = Output(**saving), (given["safe"], given["optimized"])
    problems = saved.problems(prompts)
    lines = prompts.read_text(encoding="utf-8").splitlines() if prompts.is_file() else []
    if not (lines := [line for line in lines if line.strip()]):
        problems.append(f"there are no prompts in {prompts}")
    if base_url is None and given["optimized_url"] is not None:
        problems.append("--optimized-url is for two servers: name the other with --base-url")
    if base_url is not None and tokenizer is None:
        problems.append("--tokenizer is needed with --base-url: prompts are sent as token ids")
    if base_url is not None and temperature != 1:
        problems.append("--temperature must be 1 on a server, which scores without temperature")
    refuse(problems)
    options = {each: given[each] for each in ("max_new_tokens", "add_special_tokens")}
    options |= {"eos_token_id": given["eos"]} if given["eos"] else {}
    try:
        if base_url is None:
            from tether.llm.causal_policy import load_policies

            options["temperature"] = temperature
            policies: Any = load_policies(*models, tokenizer, options)
        else:
            from tether.llm import OpenAIPolicy
            from tether.llm.completions import load_tokenizer

            words = load_tokenizer("--tokenizer", str(tokenizer))
            options = {"eos_token_id": words.eos_token_id, "tokenizer": words, **options}
            options["api_key"] = os.environ.get(given["key_variable"])
            addresses = base_url, given["optimized_url"] or base_url
            pairs = zip(addresses, models, strict=True)
            policies = tuple(OpenAIPolicy(url, name, **options) for url, name in pairs)
        rng = np.random.default_rng(given["seed"])
        result = run_preflight(policies[0], policies[1], lines, rng, draws=given["draws"])
    except RuntimeError as error:  # a server that is unavailable, weights that do not fit
        raise ValueError(str(error)) from error
    saved.show(result, as_json=as_json)
    return 0 if result.passed else NOTHING_PASSES
