"""The page of settings names every setting that there is, and its default."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tether.rounds.releases.given_settings import DEFAULT_RELEASE_SILENCE
from tether.service.settings import gateway_table, release_table, run_table, webhook_tables
from tether.service.settings.gateway_table import GatewaySettings, UpstreamSettings
from tether.service.settings.service_settings import TABLES, ServiceLimits, ServiceSettings

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "serve_settings.md").read_text("utf-8")
ROW = re.compile(r"^\| (`[^|]+`) \|([^|]*)\| .* \|$", re.M)


def section(*names):
    """The settings of the sections whose heading has one of the names, with their defaults."""
    found = {}
    for part in PAGE.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        if any(f"`{name}`" in heading for name in names):
            for cell, default in ROW.findall(body):
                found |= dict.fromkeys(re.findall(r"`([^`]+)`", cell), default.strip("` "))
    return found


def test_every_table_has_a_section():
    for name in TABLES:
        assert f"`[{name}]`" in "".join(re.findall(r"^## .*$", PAGE, re.M)), name


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (["[release]"], release_table.RELEASE_OPTIONS),
        (["[flag]"], ("key", "old", "new")),
        (["[listen]"], ("listen.host", "listen.port", "listen.workers", "access.keys")),
        (["[limits]"], [each.name for each in fields(ServiceLimits)]),
        (["[logs]"], ("logs.requests", "spool.folder")),
        (["[[webhooks]]"], webhook_tables._OPTIONS),
        (["[run]"], run_table.RUN_OPTIONS),
        (
            ["[gateway]"],
            {*gateway_table.GATEWAY_OPTIONS, *gateway_table.UPSTREAM_OPTIONS} - {"old", "new"},
        ),
    ],
)
def test_every_setting_is_there(names, settings):
    assert set(settings) <= set(section(*names))


@pytest.mark.parametrize(
    ("name", "record"),
    [("[limits]", ServiceLimits), ("[gateway]", GatewaySettings), ("[gateway]", UpstreamSettings)],
)
def test_defaults_of_numbers_are_those_of_the_code(name, record):
    stated = section(name)
    numbers = [each for each in fields(record) if isinstance(each.default, int | float)]
    assert numbers
    for each in numbers:
        assert float(stated[each.name]) == each.default, each.name


def test_the_other_defaults_are_those_of_the_code():
    listen, release = section("[listen]"), section("[release]")
    assert listen["listen.host"] == f'"{ServiceSettings.host}"'
    assert listen["listen.port"] == str(ServiceSettings.port)
    assert release["max_silence"] == str(DEFAULT_RELEASE_SILENCE)
    assert section("[flag]")["key"] == f'"{ServiceSettings.flag}"'
