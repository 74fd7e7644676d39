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
    Output,
    report_errors,
    require_file,
    show_and_save,
)


@report_errors
def preflight(
    prompts: Annotated[Path, typer.Argument(help="Prompts: a text file with one per line.")],
    safe: Annotated[
        str, typer.Option(help="The folder of the safe model, or its name on the server.")
    ],
    optimized: Annotated[
        str,
        typer.Option(help="The folder of a model or PEFT adapter, or its name on the server."),
    ],
    base_url: Annotated[
        str | None, typer.Option(help="A completions server, e.g. http://localhost:8000/v1.")
    ] = None,
    optimized_url: Annotated[
        str | None,
        typer.Option(help="The server of the optimized model. (default: --base-url)"),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The folder of the tokenizer. (default: the safe model's)")
    ] = None,
    eos: Annotated[
        list[int] | None,
        typer.Option(help="The ids of end-of-sequence tokens. (default: the model's)"),
    ] = None,
    key_variable: Annotated[
        str, typer.Option(help="The environment variable with the server's key.")
    ] = "OPENAI_API_KEY",
    gguf_file: Annotated[
        str | None, typer.Option(help="The GGUF file in the model's folder.")
    ] = None,
    add_special_tokens: Annotated[
        bool,
        typer.Option(
            "--add-special-tokens", help="Let the tokenizer add special tokens to prompts."
        ),
    ] = False,
    max_new_tokens: Annotated[
        int, typer.Option(help="The largest number of tokens in a completion.")
    ] = 64,
    temperature: Annotated[float, typer.Option(help="The softmax temperature.")] = 1.0,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Requests to the server at a time. (default: as many as it gains from)"),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that one attempt of a request may take.")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds after which a failing request is given up.")
    ] = None,
    retries: Annotated[
        int | None, typer.Option(help="How often a failed request is sent again at most.")
    ] = None,
    draws: Annotated[int, typer.Option(help="The number of completions per prompt.")] = 16,
    seed: Annotated[int, typer.Option(help="The seed of all draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Save the result as JSON.")] = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check two language models before relying on their log-probabilities."""
    require_extra("tether preflight", "llm")
    from tether.llm import model_folders
    from tether.llm.run_preflight import preflight as run_preflight

    saved = Output(out, force, key)
    saved.check(prompts)
    lines = _prompts(prompts)
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "add_special_tokens": add_special_tokens,
    }
    if eos:
        options["eos_token_id"] = eos
    sending = {
        name: value
        for name, value in {
            "concurrency": concurrency,
            "timeout": timeout,
            "deadline": deadline,
            "retries": retries,
        }.items()
        if value is not None
    }
    if sending and base_url is None:
        raise ValueError(f"--{next(iter(sending))} is for a server: name it with --base-url")
    if optimized_url is not None and base_url is None:
        raise ValueError("--optimized-url is for two servers: name the other with --base-url")
    if tokenizer is not None:
        model_folders.check_folder("--tokenizer", tokenizer)
    try:
        if base_url is None:
            policies = model_folders.load_policies(safe, optimized, tokenizer, gguf_file, options)
        else:
            models = ((base_url, safe), (optimized_url or base_url, optimized))
            policies = _server_policies(models, tokenizer, key_variable, options | sending)
        result = run_preflight(*policies, lines, np.random.default_rng(seed), draws=draws)
    except RuntimeError as error:  # a server that is unavailable, weights that do not fit
        raise ValueError(str(error)) from error
    show_and_save(result, saved, as_json=as_json)
    if not result.passed:
        raise typer.Exit(NOTHING_PASSES)


def _prompts(path: Path) -> list[str]:
    require_file(path)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no prompts")
    return lines


def _server_policies(
    models: tuple[tuple[str, str], tuple[str, str]],
    tokenizer_folder: str | None,
    key_variable: str,
    options: dict[str, Any],
) -> tuple[Any, Any]:
    """Two models by the address of their server and their name; prompts are tokenized here."""
    from tether.llm.openai_policy import OpenAIPolicy

    if tokenizer_folder is None:
        raise ValueError("--tokenizer is required with --base-url: prompts are sent as token ids")
    from tether.llm import model_folders

    tokenizer = model_folders.load_tokenizer(tokenizer_folder)
    options = {"eos_token_id": tokenizer.eos_token_id, **options}
    key = os.environ.get(key_variable)
    safe_policy, optimized_policy = (
        OpenAIPolicy(url, name, tokenizer=tokenizer, api_key=key, **options) for url, name in models
    )
    return safe_policy, optimized_policy
