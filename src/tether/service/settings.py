"""The settings of a service: one TOML file, checked as a whole before anything starts.

Paths are relative to the folder of the file. `${NAME}` in a text is an environment variable, so
that secrets need not stand in the file.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from tether._core.words import read_duration
from tether.runs import Guardrail

Seconds = Annotated[float, Meta(ge=0.001, le=86_400)]
Text = Annotated[str, Meta(min_length=1, pattern=r"^[^\x00-\x1f]*$")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
BaseUrl = Annotated[str, Meta(pattern=r"^https?://[^/@?#\s]+(/[^@?#\s]*)?$")]
Url = Annotated[str, Meta(pattern=r"^https?://[^/@?#\s]+([/?]\S*)?$")]
EventKind = Literal["alarm", "halt", "resume", "step", "round", "store"]

OWN_PATHS = ("v1", "ofrep", "healthz", "readyz", "metrics", "openapi.json")
"""Names that a release may not have, since paths begin with them."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: unknown names, wrong types and numbers out of range are errors."""


class Model(Table, frozen=True):
    """A server that speaks OpenAI's protocol; `model` replaces the one that requests name."""

    url: BaseUrl
    model: Text | None = None
    api_key: Text | None = None


class Upstream(Model, frozen=True):
    """An upstream of a release, and how long parts of its answer may take."""

    connect_within: Seconds = 2.0
    first_byte_within: Seconds = 60.0
    finish_within: Seconds = 600.0


class Drawn(Model, frozen=True, kw_only=True):
    """An upstream whose answers are drawn under a tether, which is of one model."""

    model: Text
    settings: dict[str, Any] = {}
    max_n: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    timeout: Seconds = 60.0
    retries: Annotated[int, Meta(ge=0, le=100)] = 1


class Scorer(Table, frozen=True):
    """What picks an answer: a function by its import path, or a server."""

    function: Text | None = None
    url: Url | None = None
    api_key: Text | None = None
    timeout: Seconds = 5.0

    def __post_init__(self) -> None:
        if (self.function is None) == (self.url is None):
            raise ValueError("a scorer has either a function or a url")


class ReleaseGateway(Table, frozen=True):
    """Two upstreams behind a release; the guardrails that the gateway reports to by itself."""

    old: Upstream
    new: Upstream
    failure_guardrail: Text | None = None
    latency_guardrail: Text | None = None
    slow_after: Seconds = 2.0

    def __post_init__(self) -> None:
        if self.failure_guardrail is not None and self.failure_guardrail == self.latency_guardrail:
            raise ValueError("failure_guardrail and latency_guardrail must differ")

    @property
    def reported(self) -> dict[str, str]:
        """What the gateway reports by itself: "failure" and "latency" by guardrail."""
        given = {self.failure_guardrail: "failure", self.latency_guardrail: "latency"}
        return {name: what for name, what in given.items() if name is not None}


class TetheredGateway(Table, frozen=True):
    """Answers picked from N draws of the safe upstream, by one of the scorers: `scorer`."""

    store: Text
    old: Drawn
    scorer: Text
    scorers: dict[str, Scorer]
    candidates: Annotated[int, Meta(ge=2, le=256)] = 8
    pick_temperature: Annotated[float, Meta(ge=0)] = 1.0
    controller: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.scorer not in self.scorers:
            raise ValueError(f"gateway.scorers has no {self.scorer!r}, the name of gateway.scorer")


class Flag(Table, frozen=True):
    """What OpenFeature clients ask for; `key` is the name of its release by default."""

    key: Name | None = None
    old: str | bool | float = "old"
    new: str | bool | float = "new"

    def __post_init__(self) -> None:
        if type(self.old) is not type(self.new) or self.old == self.new:
            raise ValueError("old and new must be two different values of one type")


class ReleaseTable(Table, frozen=True):
    """The arguments of `tether.Release`, without guardrails if it exists; its flag and gateway."""

    store: Text
    guardrails: dict[str, float | dict[str, float]] | None = None
    old: dict[str, float] | None = None
    step: int | str | None = None
    stop: float | Literal["none"] = 0.05
    growth: float = 3.0
    sticky: bool = True
    outcome_deadline: str | None = None
    signing_key: Text | None = None
    flag: Flag = Flag()
    gateway: ReleaseGateway | None = None

    def options(self, folder: str) -> dict[str, Any]:
        """The arguments; `Release` checks what they mean."""
        given = {name: getattr(self, name) for name in ("old", "growth", "sticky")}
        given["stop"] = None if self.stop == "none" else self.stop
        for name in ("step", "outcome_deadline"):
            value = given[name] = getattr(self, name)
            if isinstance(value, str):
                given[name] = read_duration(name, value, "a time such as 30m or 12h")
        given["guardrails"] = self.guardrails and {
            name: Guardrail(**each) if isinstance(each, dict) else each
            for name, each in self.guardrails.items()
        }
        if self.signing_key is not None:
            given["key"] = Path(folder, self.signing_key)
        if (gateway := self.gateway) is not None:
            given["reported"] = gateway.reported
            given["patience"] = gateway.new.finish_within + gateway.old.finish_within  # in turn
        return given


class RunTable(Table, frozen=True):
    """Functions of the user: for a controller, for policies from training rows, for contexts."""

    controller: Text
    store: Text | None = None
    optimized: Text | None = None
    contexts: Text | None = None


class Listen(Table, frozen=True):
    """Where requests arrive."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8080


class Access(Table, frozen=True):
    """The file of API keys."""

    keys: Text | None = None


class Limits(Table, frozen=True):
    """How large a body may be, how long a request waits for the store, and how many there are."""

    body_bytes: Annotated[int, Meta(ge=1_000, le=100_000_000)] = 1_000_000
    answer_within: Annotated[float, Meta(ge=0.01, le=60)] = 0.25
    store_deadline: Annotated[float, Meta(ge=0.05, le=600)] = 5.0
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 800


class Webhook(Table, frozen=True):
    """Who is told of events. The URL may be a secret: it is never shown."""

    url: Url
    format: Literal["json", "text"] = "json"
    events: tuple[EventKind, ...] = get_args(EventKind)
    secret: Text | None = None
    deadline: Seconds = 5.0


class ServiceSettings(Table, frozen=True):
    """What a service serves, where, and to whom: the tables of the file.

    It serves one release, several under their names, one run, or a tethered gateway.
    """

    release: ReleaseTable | None = None
    releases: dict[Name, ReleaseTable] = {}
    run: RunTable | None = None
    gateway: TetheredGateway | None = None
    listen: Listen = Listen()
    access: Access = Access()
    limits: Limits = Limits()
    webhooks: tuple[Webhook, ...] = ()
    folder: str = "."

    def __post_init__(self) -> None:
        served = [n for n in ("release", "releases", "run", "gateway") if getattr(self, n)]
        if len(served) != 1:
            raise ValueError(
                f"there must be one of [release], [releases.NAME], [run] and [gateway], got "
                f"{served or 'none'}"
            )
        if self.access.keys is None and not is_loopback(self.listen.host):
            raise ValueError(
                f"listen.host must be a loopback address such as 127.0.0.1 without access.keys, "
                f"got {self.listen.host!r}: make a key with `tether serve-key` and name its file"
            )
        if taken := set(OWN_PATHS) & self.releases.keys():
            raise ValueError(f"a release cannot be called {taken.pop()!r}: choose another name")
        titles = [title_of(name, each) for name, each in self.named_releases.items()]
        if len(set(titles)) < len(titles):
            raise ValueError(f"each release must have a flag.key of its own, got {titles}")

    @property
    def named_releases(self) -> dict[str, ReleaseTable]:
        """The releases by the beginning of their paths, which is empty for the only one."""
        return self.releases if self.release is None else {"": self.release}

    def store_at(self, store: str) -> str:
        """The path or URL of a store."""
        return store if "://" in store else str(Path(self.folder, store))


def title_of(name: str, release: ReleaseTable) -> str:
    """What a release is called in its flag, on its page, in metrics and in webhooks."""
    return release.flag.key or name or "release"


def make_settings(content: dict[str, Any], folder: str | Path) -> ServiceSettings:
    """Settings from the tables of a file."""
    return msgspec.convert(filled(content) | {"folder": str(folder)}, ServiceSettings)


def filled(value: Any) -> Any:
    """A value of the file, with environment variables in place of `${NAME}`."""
    if isinstance(value, dict):
        return {name: filled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each) for each in value]
    return _VARIABLE.sub(_variable, value) if isinstance(value, str) else value


def _variable(found: re.Match[str]) -> str:
    if not (value := os.environ.get(found[1], "").strip()):
        raise ValueError(f"the environment variable {found[1]!r} is not set")
    return value


@lru_cache  # asked about the host of each request
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_service_settings(path: str | Path) -> ServiceSettings:
    """Read the settings of a service.

    Parameters
    ----------
    path : str or pathlib.Path
        A TOML file.

    Returns
    -------
    ServiceSettings
        Its settings.

    Raises
    ------
    ValueError
        If something is missing, unknown or wrong; the message names the setting.
    OSError
        If the file cannot be read.
    """
    given = Path(path)
    try:
        return make_settings(tomllib.loads(given.read_text(encoding="utf-8")), given.parent)
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None
