"""The table `gateway` of the settings: two upstreams that speak OpenAI's protocol."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tether.llm.client import check_key
from tether.service.settings.toml_tables import Table

UPSTREAM_OPTIONS = (
    "url", "model", "api_key_variable", "connect_within", "first_byte_within", "chunk_within",
    "finish_within",
)  # fmt: skip
"""The settings of each upstream."""
GATEWAY_OPTIONS = (
    "mode", "old", "new", "failure_guardrail", "latency_guardrail", "slow_after",
    "failures_until_pause", "pause",
)  # fmt: skip
"""The settings of the table `gateway`."""
LONGEST_UPSTREAM_WAIT = 86_400.0
"""The most seconds that a wait may be set to."""


@dataclass(frozen=True)
class UpstreamSettings:
    """A server that speaks OpenAI's protocol, and how long it may take.

    Parameters
    ----------
    url : str
        The base URL, up to and with the version, such as "https://api.openai.com/v1".
    model : str or None
        Replaces the model that a request names.
    api_key : str or None
        What is sent as `Authorization: Bearer …`; not shown.
    connect_within : float
        The seconds that a connection may take.
    first_byte_within : float
        The seconds until the first byte of an answer, or the first event of a stream.
    chunk_within : float
        The seconds between two parts of an answer.
    finish_within : float
        The seconds that the whole answer may take.
    """

    url: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    connect_within: float = 2.0
    first_byte_within: float = 60.0
    chunk_within: float = 30.0
    finish_within: float = 600.0

    def __post_init__(self) -> None:
        """Refuse a URL that is none, or that has a password, which logs would show."""
        try:
            parts = urlsplit(self.url)
            is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url or not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise ValueError(
                "url must be a base URL such as https://api.openai.com/v1; it is not shown, as it "
                "may have a password"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "url must have no user, password, query or fragment; it is not shown (name the "
                "key's environment variable in api_key_variable)"
            )


@dataclass(frozen=True)
class GatewaySettings:
    """Two upstreams, what is done when the new one fails, and what is reported by itself.

    Parameters
    ----------
    old : UpstreamSettings
        The upstream of the old system, which also answers where the new one fails.
    new : UpstreamSettings
        The upstream of the new system.
    failure_guardrail : str or None
        The guardrail that a failure of the upstream is reported to as a loss of 1, and an answer as
        one of 0.
    latency_guardrail : str or None
        The guardrail that a slow first byte is reported to as a loss of 1, and others as one of 0.
    slow_after : float
        The seconds to the first byte that are not slow yet.
    failures_until_pause : int
        After so many failures in a row the new upstream is not asked for a while.
    pause : float
        The seconds until it is asked once again.
    """

    old: UpstreamSettings
    new: UpstreamSettings
    failure_guardrail: str | None = None
    latency_guardrail: str | None = None
    slow_after: float = 2.0
    failures_until_pause: int = 5
    pause: float = 10.0

    def __post_init__(self) -> None:
        """Refuse one guardrail for two losses."""
        both = self.failure_guardrail, self.latency_guardrail
        if both[0] is not None and both[0] == both[1]:
            raise ValueError(
                f"failure_guardrail and latency_guardrail must be two guardrails, got {both[0]!r} "
                f"for both"
            )

    @property
    def guardrails(self) -> dict[str, str]:
        """The guardrails that are reported to, by the setting that names them.

        Returns
        -------
        dict of str to str
            Only those that are set.
        """
        named = {
            "failure_guardrail": self.failure_guardrail,
            "latency_guardrail": self.latency_guardrail,
        }
        return {option: name for option, name in named.items() if name is not None}


def read_gateway(table: Table) -> GatewaySettings:
    """The settings of a gateway."""
    mode = table.text("mode", "release")
    if mode != "release":
        raise ValueError(f'{table.full("mode")} must be "release" or "tethered", got {mode!r:.80}')
    old, new = (read_upstream(table.table(name)) for name in ("old", "new"))
    usual = GatewaySettings(old, new)
    failure, latency = (table.optional_text(f"{each}_guardrail") for each in ("failure", "latency"))
    made = GatewaySettings(
        old,
        new,
        failure_guardrail=failure,
        latency_guardrail=latency,
        slow_after=table.number(
            "slow_after", usual.slow_after, least=0.001, most=LONGEST_UPSTREAM_WAIT
        ),
        failures_until_pause=table.integer(
            "failures_until_pause", usual.failures_until_pause, least=1, most=1_000_000
        ),
        pause=table.number("pause", usual.pause, least=0.001, most=LONGEST_UPSTREAM_WAIT),
    )
    table.finish(GATEWAY_OPTIONS)
    return made


def read_upstream(table: Table) -> UpstreamSettings:
    """The settings of an upstream, with the key that the environment has."""
    url = table.text("url").rstrip("/")
    model, variable = table.optional_text("model"), table.optional_text("api_key_variable")
    waits = {
        name: table.number(
            name, getattr(UpstreamSettings, name), least=0.001, most=LONGEST_UPSTREAM_WAIT
        )
        for name in ("connect_within", "first_byte_within", "chunk_within", "finish_within")
    }
    table.finish(UPSTREAM_OPTIONS)
    key = None
    if variable is not None:
        if not os.environ.get(variable, "").strip():
            raise ValueError(
                f"{table.full('api_key_variable')} names {variable!r}, which is not set"
            )
        try:
            key = check_key(os.environ[variable])
        except ValueError as error:
            raise ValueError(f"{table.full('api_key_variable')}: {error}") from None
    try:
        return UpstreamSettings(url, model, key, **waits)
    except ValueError as error:
        raise ValueError(f"{table.name}.{error}") from None
