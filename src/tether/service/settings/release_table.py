"""The tables `release` and `flag` of the settings: what `tether.Release` is made with."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

from tether.service.settings.toml_tables import Table

RELEASE_OPTIONS = (
    "store", "store_variable", "guardrails", "promise", "confidence", "keys_per_step",
    "step_duration", "wait", "alarm_risk", "false_alarm_probability", "max_silence", "salt",
    "signing_key",
)  # fmt: skip
"""The settings of the table `release`."""
FLAG_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What the key of a flag may be: it is part of a URL."""


def read_store(table: Table, folder: Path) -> str:
    """The store, which may be named by an environment variable, since its URL has a password."""
    variable = table.optional_text("store_variable")
    if variable is not None:
        if table.has("store"):
            raise ValueError(
                f"name either {table.full('store')} or {table.full('store_variable')}, got both"
            )
        if not os.environ.get(variable):
            raise ValueError(f"{table.full('store_variable')} names {variable!r}, which is not set")
        return os.environ[variable]
    store = table.text("store")
    return store if "://" in store else str(folder / store)


def read_release_options(table: Table, folder: Path) -> dict[str, Any]:
    """The arguments of a release that are given; `Release` checks what they mean."""
    options: dict[str, Any] = {}
    if table.has("guardrails"):
        given = Table("release.guardrails", table.take("guardrails"))._values
        options["guardrails"] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in given.items()
        }
    if table.has("promise"):
        options["promise"] = table.flag("promise")
    if table.has("step_duration"):
        options["step_duration"] = table.duration("step_duration")
    if table.has("max_silence"):
        silence = table.take("max_silence")
        if isinstance(silence, str):
            silence = None if silence == "none" else Table("release", {"max_silence": silence})
        options["max_silence"] = (
            silence.duration("max_silence") if isinstance(silence, Table) else silence
        )
    if (salt := table.optional_text("salt")) is not None:
        try:
            options["salt"] = bytes.fromhex(salt)
        except ValueError:
            raise ValueError(f"release.salt must be in hexadecimal, got {salt!r:.80}") from None
    if (key := table.optional_text("signing_key")) is not None:
        options["signing_key"] = folder / key
        if not (folder / key).is_file():
            raise ValueError(
                f"release.signing_key must be a file that `tether keygen` made, got {key!r:.120}, "
                f"and there is no {folder / key}"
            )
    for name in RELEASE_OPTIONS:
        if table.has(name):
            options[name] = table.take(name)
    table.finish(RELEASE_OPTIONS)
    return options


def read_flag(table: Table) -> tuple[str, dict[str, Any]]:
    """The key of the flag, and its two values."""
    key = table.text("key", "release")
    if not FLAG_KEY.fullmatch(key):
        raise ValueError(
            f"flag.key must have 1 to 100 letters, digits, dots, dashes or underscores, got "
            f"{key!r:.80}"
        )
    values = {name: table.take(name) for name in ("old", "new")}
    table.finish(("key", "old", "new"))
    if values == {"old": None, "new": None}:
        return key, {"old": "old", "new": "new"}
    for name, value in values.items():
        is_finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, str | bool | int | float) or not is_finite:
            raise ValueError(f"flag.{name} must be text, a number or a boolean, got {value!r:.80}")
    if type(values["old"]) is not type(values["new"]) or values["old"] == values["new"]:
        raise ValueError(
            f"flag.old and flag.new must be two different values of one type, got "
            f"{values['old']!r:.80} and {values['new']!r:.80}"
        )
    return key, values
