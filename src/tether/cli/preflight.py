"""`tether preflight`: whether the log-probabilities of two language models can be trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether.cli.terminal import NOTHING_PASSES, show, told
from tether.llm.local import model_folders
from tether.llm.preflight_checks.run import preflight as run_preflight


@told
def preflight(
    prompts: Annotated[Path, typer.Argument(help="Prompts: a text file, one a line.")],
    safe: Annotated[str, typer.Option(help="Folder of the safe model, or its name on a server.")],
    optimized: Annotated[
        str, typer.Option(help="Folder of a model or of a PEFT adapter, or a name on the server.")
    ],
    base_url: Annotated[
        str | None, typer.Option(help="A completions server, e.g. http://localhost:8000/v1.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder of the tokenizer. [that of the safe model]")
    ] = None,
    eos: Annotated[
        list[int] | None, typer.Option(help="Ids of the tokens that end. [the model's]")
    ] = None,
    key_variable: Annotated[
        str, typer.Option(help="Environment variable with the server's key.")
    ] = "OPENAI_API_KEY",
    gguf_file: Annotated[str | None, typer.Option(help="GGUF file in the model's folder.")] = None,
    add_special_tokens: Annotated[
        bool,
        typer.Option("--add-special-tokens", help="Let the tokenizer add its own to prompts."),
    ] = False,
    max_new_tokens: Annotated[int, typer.Option(help="The longest completion.")] = 64,
    temperature: Annotated[float, typer.Option(help="The softmax temperature.")] = 1.0,
    draws: Annotated[int, typer.Option(help="Completions of each prompt.")] = 16,
    seed: Annotated[int, typer.Option(help="The seed of all draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Save what was found as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Measure two language models before their numbers are trusted: pass, warn and fail."""
    asked = _lines(prompts)
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "add_special_tokens": add_special_tokens,
    }
    if eos:
        options["eos_token_id"] = eos
    if tokenizer is not None:
        model_folders.check_folder("--tokenizer", tokenizer)
    try:
        if base_url is None:
            policies = model_folders.load_policies(safe, optimized, tokenizer, gguf_file, options)
        else:
            policies = _served(base_url, safe, optimized, tokenizer, key_variable, options)
        found = run_preflight(*policies, asked, np.random.default_rng(seed), draws=draws)
    except RuntimeError as error:  # a server that is gone, weights that do not fit
        raise ValueError(str(error)) from error
    show(found, as_json=as_json, out=out)
    if not found.passed:
        raise typer.Exit(NOTHING_PASSES)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no prompts")
    return lines


def _served(
    base_url: str,
    safe: str,
    optimized: str,
    tokenizer: str | None,
    key_variable: str,
    options: dict[str, Any],
) -> tuple[Any, Any]:
    """Both models on a server; texts need a tokenizer here."""
    from tether.llm.server.openai_policy import OpenAIPolicy

    if tokenizer is None:
        raise ValueError("--tokenizer is needed with --base-url: prompts are sent as token ids")
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tokenizer)
    options = {"eos_token_id": words.eos_token_id, **options}
    one, two = (
        OpenAIPolicy(
            base_url, name, tokenizer=words, api_key=os.environ.get(key_variable), **options
        )
        for name in (safe, optimized)
    )
    return one, two
