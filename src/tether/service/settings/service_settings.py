"""The settings of a service: one TOML file, checked as a whole before anything starts.

Paths are relative to the folder of the file.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.service.access.api_keys import ApiKeys
from tether.service.access.key_file import KeyFile
from tether.service.settings.gateway_table import GatewaySettings, read_gateway
from tether.service.settings.release_table import read_flag, read_release_options, read_store
from tether.service.settings.run_table import RunTable, read_run
from tether.service.settings.tethered_table import TetheredSettings, read_tethered
from tether.service.settings.toml_tables import Table
from tether.service.settings.webhook_tables import Webhook, read_webhooks

TABLES = ("release", "run", "gateway", "flag", "listen", "access", "limits", "logs", "spool")
"""The tables of the file."""
MOST_ITEMS = 10_000
"""The most that `items_per_request` may be: one transaction, which others wait for."""
STORED_PER_SECOND = 100_000
"""How many keys a store takes in a second, about: a request must fit into `answer_within`."""
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


@dataclass(frozen=True)
class ServiceLimits:
    """What one request, one client and one wait may take.

    Parameters
    ----------
    body_bytes : int
        The longest body of a request.
    items_per_request : int
        How many keys or outcomes a request may have.
    requests_per_second : float
        How many requests each API key may send in a second, on average.
    burst : int
        How many of them at once.
    answer_within : float
        After so many seconds without the store the old system answers.
    store_deadline : float
        How many seconds anything else waits for the store.
    body_seconds : float
        How long the body of a request may take to arrive.
    connections : int
        How many connections may be open; beyond it the one that is idle for longest is closed.
    idle_seconds : float
        After so many seconds without a whole request a connection is closed.
    """

    body_bytes: int = 1_000_000
    items_per_request: int = 1_000
    requests_per_second: float = 10_000.0
    burst: int = 10_000
    answer_within: float = 0.035
    store_deadline: float = 1.0
    body_seconds: float = 10.0
    connections: int = 800
    idle_seconds: float = 30.0


@dataclass(frozen=True)
class ServiceSettings:
    """What a service serves, where, and to whom.

    Parameters
    ----------
    store : str
        The path or URL of the store; "" if a function of the user names it.
    release : mapping
        The other arguments of `tether.Release`; without guardrails the release must exist.
    flag : str
        The key of the flag that OpenFeature clients ask for.
    values : mapping
        The values of the flag for "old" and "new", both text, both booleans or both numbers.
    host : str
        The address to listen at.
    port : int
        The port to listen at; 0 for any free one.
    keys : ApiKeys, KeyFile or None
        Who may do what; None if everyone on this machine may do everything.
    origins : tuple of str
        The web pages that browsers may send requests from.
    limits : ServiceLimits
        What one request may take.
    log_requests : bool
        Whether every request is logged.
    spool : pathlib.Path or None
        The folder for answers that are given while the store is unavailable; None to keep none.
    workers : int
        How many processes answer requests.
    run : RunTable or None
        The run that is served instead of a release.
    tethered : TetheredSettings or None
        The gateway in tethered mode that is served instead, with a run of its own.
    gateway : GatewaySettings or None
        The upstreams of the gateway for language models; None if there is none.
    webhooks : tuple of Webhook
        Who is told of alarms, halts and steps.
    """

    store: str
    release: Mapping[str, Any] = field(default_factory=dict)
    flag: str = "release"
    values: Mapping[str, Any] = field(default_factory=lambda: {"old": "old", "new": "new"})
    host: str = "127.0.0.1"
    port: int = 8080
    keys: ApiKeys | KeyFile | None = None
    origins: tuple[str, ...] = ()
    limits: ServiceLimits = ServiceLimits()
    log_requests: bool = False
    spool: Path | None = None
    workers: int = 1
    run: RunTable | None = None
    tethered: TetheredSettings | None = None
    gateway: GatewaySettings | None = None
    webhooks: tuple[Webhook, ...] = ()

    @property
    def title(self) -> str:
        """What the schema and webhooks call what is served."""
        if self.tethered is not None:
            return "gateway"
        return self.flag if self.run is None else "run"

    def __post_init__(self) -> None:
        """Refuse a service that anyone could reach and everyone could halt."""
        if self.keys is None and not is_loopback(self.host):
            raise ValueError(
                f"listen.host must be a loopback address such as 127.0.0.1 without access.keys, "
                f"got {self.host!r}: make a key with `tether serve-key` and name its file"
            )


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
        Its settings, with the API keys that it names.

    Raises
    ------
    ValueError
        If something is missing, unknown or wrong; the message names the setting and its value.
    OSError
        If a file cannot be read.
    """
    given = Path(path)
    try:
        content = tomllib.loads(given.read_bytes().decode())
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no settings file {given}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{given} is not a TOML file: {error}") from None
    try:
        return _settings(Table("", content), given.parent)
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None


def _settings(file: Table, folder: Path) -> ServiceSettings:
    given = [name for name in ("release", "run") if file.has(name)]
    has_gateway = file.has("gateway")
    parts = {name: file.table(name) for name in TABLES}
    if parts["gateway"].peek("mode") == "tethered":
        given.append("gateway")  # it has a run of its own
    if len(given) > 1:
        raise ValueError(
            f"there must be one of [release], [run] and a tethered [gateway], got {given}"
        )
    if has_gateway and given == ["run"]:
        raise ValueError("a table [gateway] beside [run] is not possible: it is for a release")
    webhooks = read_webhooks(file.take("webhooks"))
    file.finish([*(f"[{name}]" for name in TABLES), "[[webhooks]]"])
    access = parts["access"]
    keys = access.optional_text("keys")
    origins = access.texts("origins")
    access.finish(("keys", "origins"))
    for each in origins:
        if not _ORIGIN.fullmatch(each):
            raise ValueError(
                f"access.origins must be origins such as https://shop.example.org, in lower case "
                f"and without a path, got {each!r:.80}"
            )
    listen, logs = parts["listen"], parts["logs"]
    host = listen.text("host", "127.0.0.1")
    port = listen.integer("port", 8080, least=0, most=65_535)
    log_requests = logs.flag("requests")
    workers = listen.integer("workers", 1, least=1, most=64)
    listen.finish(("host", "port", "workers"))
    spool = parts["spool"].optional_text("folder")
    parts["spool"].finish(("folder",))
    logs.finish(("requests",))
    flag, values = read_flag(parts["flag"])
    limits = _limits(parts["limits"])
    run = read_run(parts["run"], folder) if "run" in given else None
    tethered = gateway = None
    if "gateway" in given:
        tethered = read_tethered(parts["gateway"], folder)
    elif has_gateway:
        gateway = read_gateway(parts["gateway"])
    if run is not None:
        store = run.store or ""
    else:
        store = read_store(parts["release"], folder) if tethered is None else tethered.store
    is_release = run is None and tethered is None
    return ServiceSettings(
        store=store,
        release=read_release_options(parts["release"], folder) if is_release else {},
        run=run,
        tethered=tethered,
        flag=flag,
        values=values,
        host=host,
        port=port,
        keys=None if keys is None else _key_file(folder / keys),
        origins=origins,
        limits=limits,
        log_requests=log_requests,
        spool=folder if spool is None else folder / spool,
        workers=workers,
        gateway=gateway,
        webhooks=webhooks,
    )


def _key_file(path: Path) -> KeyFile:
    try:
        return KeyFile(path)
    except OSError as error:
        raise ValueError(
            f"access.keys must be a file that `tether serve-key` made, got {str(path)!r}: "
            f"{error.strerror}"
        ) from None
    except ValueError as error:
        raise ValueError(f"access.keys: {error}") from None


def _limits(table: Table) -> ServiceLimits:
    usual = ServiceLimits()
    limits = ServiceLimits(
        body_bytes=table.integer("body_bytes", usual.body_bytes, least=1_000, most=100_000_000),
        items_per_request=table.integer(
            "items_per_request", usual.items_per_request, least=1, most=MOST_ITEMS
        ),
        requests_per_second=table.number(
            "requests_per_second", usual.requests_per_second, least=0.01, most=1e9
        ),
        burst=table.integer("burst", usual.burst, least=1, most=10**9),
        answer_within=table.number("answer_within", usual.answer_within, least=0.001, most=60.0),
        store_deadline=table.number("store_deadline", usual.store_deadline, least=0.01, most=600),
        body_seconds=table.number("body_seconds", usual.body_seconds, least=0.1, most=600),
        connections=table.integer("connections", usual.connections, least=1, most=100_000),
        idle_seconds=table.number("idle_seconds", usual.idle_seconds, least=0.1, most=3_600),
    )
    table.finish(tuple(vars(usual)))
    most = int(STORED_PER_SECOND * limits.answer_within)
    if limits.items_per_request > most:
        raise ValueError(
            f"limits.items_per_request must be at most {most}, as many keys as a store takes "
            f"within limits.answer_within = {limits.answer_within:g} s, got "
            f"{limits.items_per_request}"
        )
    return limits
