"""`tether preflight`: whether the log-probabilities of two language models can be trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core.extras import require_extra
from tether.cli.terminal import (
    NOTHING_PASSES,
    ForceOption,
    JsonOption,
    KeyOption,
    OutOption,
    Output,
    argument,
    option,
    report_errors,
    show_and_save,
)


@report_errors
def preflight(
    prompts: Annotated[Path, argument("Prompts: a text file with one per line.")],
    safe: Annotated[str, option("The folder of the safe model, or its name on the server.")],
    optimized: Annotated[
        str,
        typer.Option(help="The folder of a model or PEFT adapter, or its name on the server."),
    ],
    base_url: Annotated[
        str | None, typer.Option(help="A completions server, e.g. http://localhost:8000/v1.")
    ] = None,
    optimized_url: Annotated[
        str | None, typer.Option(help="The optimized model's server. (default: --base-url)")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The folder of the tokenizer. (default: each model's own)")
    ] = None,
    eos: Annotated[
        list[int] | None,
        typer.Option(help="The ids of end-of-sequence tokens. (default: the model's)"),
    ] = None,
    key_variable: Annotated[
        str, typer.Option(help="The environment variable with the server's key.")
    ] = "OPENAI_API_KEY",
    gguf_file: Annotated[str | None, option("The GGUF file in the model's folder.")] = None,
    add_special_tokens: Annotated[
        bool,
        typer.Option("--add-special-tokens", help="Let the tokenizer add its special tokens."),
    ] = False,
    max_new_tokens: Annotated[int, option("The most tokens in a completion.")] = 64,
    temperature: Annotated[float, option("The softmax temperature; local only.")] = 1.0,
    draws: Annotated[int, option("The number of completions per prompt.")] = 16,
    seed: Annotated[int, option("The seed of all draws.")] = 0,
    out: OutOption = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check two language models before relying on their log-probabilities.

    The exit code is 3 if a check fails.
    """
    require_extra("tether preflight", "llm" if base_url is None else "api")
    from tether.llm import preflight as run_preflight

    saved = Output(out, force, key)
    problems = saved.problems(prompts)
    problems += [] if prompts.is_file() else [f"there is no file {prompts}"]
    if base_url is None and optimized_url is not None:
        problems.append("--optimized-url is for two servers: name the other with --base-url")
    if base_url is not None and tokenizer is None:
        problems.append("--tokenizer is needed with --base-url: prompts are sent as token ids")
    if base_url is not None and temperature != 1:
        problems.append("--temperature must be 1 on a server, which scores without temperature")
    if problems:
        raise ValueError("; ".join(problems))
    lines = [line for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{prompts} has no prompts")
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens}
    options |= {"add_special_tokens": add_special_tokens} | ({"eos_token_id": eos} if eos else {})
    try:
        if base_url is None:
            from tether.llm.model_folders import load_policies

            options["temperature"] = temperature
            policies = load_policies(safe, optimized, tokenizer, gguf_file, options)
        else:
            models = ((base_url, safe), (optimized_url or base_url, optimized))
            policies = _served(models, str(tokenizer), os.environ.get(key_variable), options)
        result = run_preflight(*policies, lines, np.random.default_rng(seed), draws=draws)
    except RuntimeError as error:  # a server that is unavailable, weights that do not fit
        raise ValueError(str(error)) from error
    show_and_save(result, saved, as_json=as_json)
    if not result.passed:
        raise typer.Exit(NOTHING_PASSES)


def _served(models: Any, folder: str, key: str | None, options: dict[str, Any]) -> Any:
    """Two models by the address of their server and their name; prompts are tokenized here."""
    from tether.llm import OpenAIPolicy
    from tether.llm.model_folders import check_folder, load_tokenizer

    check_folder("--tokenizer", folder)
    words = load_tokenizer(folder)
    options = {"eos_token_id": words.eos_token_id, "tokenizer": words, "api_key": key, **options}
    return tuple(OpenAIPolicy(url, name, **options) for url, name in models)
