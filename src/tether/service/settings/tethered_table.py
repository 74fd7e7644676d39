"""The table `gateway` with mode = "tethered": a safe upstream, a scorer, and what is tolerated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether._core.files import split_import_path
from tether.service.settings.clip_table import (
    CLIP_FAMILY,
    CLIP_OPTIONS,
    NEW_UPSTREAM_OPTIONS,
    ClipSettings,
    read_clip,
)
from tether.service.settings.release_table import read_store
from tether.service.settings.toml_tables import Table

CONTROLLER_OPTIONS = (
    "alpha", "promise", "confidence", "bound", "family", "test_weight", "missing",
    "min_observed_share", "calibration_share", "alarm_risk", "false_alarm_probability",
    "max_silence", "against", "draws", "normalizer_draws", "ratio_error", "blend", "seed",
)  # fmt: skip
"""The settings that are those of `tether.Controller`."""
TETHERED_OPTIONS = (
    "mode", "store", "store_variable", "spool", "candidates", "pick_temperature",
    "requests_at_once", "old", "scorer", "past_scorers", *CLIP_OPTIONS, *CONTROLLER_OPTIONS,
)  # fmt: skip
"""The settings of the table `gateway` in this mode."""
SAFE_UPSTREAM_OPTIONS = (
    "url", "model", "api_key_variable", "settings", "max_n", "timeout", "retries"
)  # fmt: skip
"""The settings of the safe upstream."""
SCORER_OPTIONS = ("name", "function", "url", "batched", "api_key_variable", "timeout")
"""The settings of a scorer."""


@dataclass(frozen=True)
class SafeUpstream:
    """The server whose answers are drawn, see `tether.llm.ChatPolicy`."""

    url: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_n: int | None = None
    timeout: float = 60.0
    retries: int = 1


@dataclass(frozen=True)
class ScorerSettings:
    """What picks an answer: a function by its import path, or a URL; and its name."""

    name: str
    function: str | None = None
    url: str | None = None
    batched: bool = False
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 5.0


@dataclass(frozen=True)
class TetheredSettings:
    """A gateway whose answers are picked under a tether.

    Parameters
    ----------
    store : str
        The path or URL of the store.
    old : SafeUpstream
        Where answers are drawn.
    scorer : ScorerSettings or None
        What picks one of them, once it is calibrated.
    past_scorers : tuple of ScorerSettings
        Those of earlier rounds, under the names that they had.
    candidates : int
        How many answers are drawn for each request.
    pick_temperature : float
        See `tether.Shortlist`; 0 picks the best answer.
    requests_at_once : int
        How many requests are answered at once.
    spool : str or None
        The file in which actions wait while the store is unavailable; beside an SQLite store by
        default.
    controller : mapping
        The other arguments of `tether.Controller`.
    folder : pathlib.Path
        The folder of the file, where modules are looked for too.
    new : SafeUpstream or None
        The new upstream, where both tell log-probabilities and there is no scorer.
    clip : ClipSettings or None
        How completions are then drawn.
    """

    store: str
    old: SafeUpstream
    scorer: ScorerSettings | None = None
    past_scorers: tuple[ScorerSettings, ...] = ()
    candidates: int = 8
    pick_temperature: float = 1.0
    requests_at_once: int = 64
    spool: str | None = None
    controller: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()
    new: SafeUpstream | None = None
    clip: ClipSettings | None = None


def read_tethered(table: Table, folder: Path) -> TetheredSettings:
    """Read the table `gateway` in this mode."""
    table.take("mode")
    store, spool = read_store(table, folder), table.optional_text("spool")
    is_clip = table.has("new")
    clip = read_clip(table, folder) if is_clip else None
    new = _read_upstream(table.table("new"), NEW_UPSTREAM_OPTIONS) if is_clip else None
    candidates = table.integer("candidates", 8, least=2, most=256)
    temperature = table.number("pick_temperature", 1.0, least=0.0, most=1e9)
    at_once = table.integer("requests_at_once", 64, least=1, most=1_000)
    old = _read_upstream(table.table("old"), SAFE_UPSTREAM_OPTIONS)
    scorer, past_scorers = (None, ()) if is_clip else _read_scorers(table)
    controller = {name: table.take(name) for name in CONTROLLER_OPTIONS if table.has(name)}
    is_budgeted = clip is not None and clip.budget is not None
    if is_budgeted and controller.pop("family", CLIP_FAMILY) != CLIP_FAMILY:
        raise ValueError(
            f"{table.full('family')} must be {CLIP_FAMILY!r} with a new upstream and no candidates"
        )
    if controller.get("max_silence") == "none":
        controller["max_silence"] = None
    table.finish(TETHERED_OPTIONS)
    return TetheredSettings(
        store,
        old,
        scorer,
        past_scorers,
        candidates,
        temperature,
        at_once,
        None if spool is None else str(folder / spool),
        controller,
        folder,
        new,
        clip,
    )


def _read_scorers(table: Table) -> tuple[ScorerSettings, tuple[ScorerSettings, ...]]:
    """The present scorer and those of earlier rounds."""
    scorer, past = _read_scorer(table.table("scorer")), table.table("past_scorers")
    names = list(past._values)
    past_scorers = tuple(_read_scorer(past.table(name), name) for name in names)
    if scorer.name in names:
        raise ValueError(
            f"{table.full('past_scorers')} has {scorer.name!r}, the name of the present one: a "
            f"scorer that has changed needs a new name"
        )
    return scorer, past_scorers


def _read_upstream(table: Table, known: Sequence[str]) -> SafeUpstream:
    url, model = table.text("url"), table.optional_text("model")
    settings = table.take("settings") if "settings" in known else None
    max_n = None
    if "max_n" in known and table.has("max_n"):
        max_n = table.integer("max_n", 1, least=1, most=1_000)
    made = SafeUpstream(
        url.rstrip("/"),
        model,
        _read_key(table),
        Table(table.full("settings"), {} if settings is None else settings)._values,
        max_n,
        table.number("timeout", SafeUpstream.timeout, least=0.001, most=86_400),
        table.integer("retries", SafeUpstream.retries, least=0, most=100),
    )
    table.finish(known)
    return made


def _read_scorer(table: Table, name: str | None = None) -> ScorerSettings:
    function, url = table.optional_text("function"), table.optional_text("url")
    if (function is None) == (url is None):
        got = "neither" if url is None else "both"
        raise ValueError(f"[{table.name}] must have either a function or a url, got {got}")
    if function is not None:
        try:
            split_import_path(function)
        except ValueError as error:
            raise ValueError(f"{table.full('function')}: {error}") from None
    made = ScorerSettings(
        table.text("name", function or url) if name is None else name,
        function,
        url,
        table.flag("batched"),
        _read_key(table),
        table.number("timeout", ScorerSettings.timeout, least=0.001, most=86_400),
    )
    table.finish(SCORER_OPTIONS)
    return made


def _read_key(table: Table) -> str | None:
    """The API key that an environment variable has."""
    variable = table.optional_text("api_key_variable")
    if variable is None:
        return None
    if not os.environ.get(variable, "").strip():
        raise ValueError(f"{table.full('api_key_variable')} names {variable!r}, which is not set")
    return os.environ[variable]
