"""The settings file: everything that it may have, what is wrong in it, and the examples."""

import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from tether.runs import Guardrail
from tether.service import read_service_settings, settings

EXAMPLES = Path(__file__).parents[2] / "examples"


def read(tmp_path, text):
    (tmp_path / "serve.toml").write_text(text)
    return read_service_settings(tmp_path / "serve.toml")


def test_what_releases_are_made_with(tmp_path, monkeypatch):
    monkeypatch.setenv("STORES", "postgresql://db/tether")
    text = """
        [releases.checkout]
        store = "${STORES}?options=-csearch_path%3Dcheckout"
        guardrails = { a = 0.02, b = { tolerated = 0.1, bound = 2 }, c = { delta = 0.005 } }
        old = { a = 0.01, b = 0.05 }
        step = "12h"
        stop = "none"
        outcome_deadline = "7d"
        [releases.search]
        store = "own.db"
        """
    given = read(tmp_path, text)
    one, two = given.releases["checkout"], given.releases["search"]
    url = "postgresql://db/tether?options=-csearch_path%3Dcheckout"
    assert given.store_at(one.store) == url
    assert given.store_at(two.store) == str(tmp_path / "own.db")
    assert one.options(given.folder) == {
        "guardrails": {"a": 0.02, "b": Guardrail(0.1, bound=2), "c": Guardrail(delta=0.005)},
        "old": {"a": 0.01, "b": 0.05},
        "step": timedelta(hours=12),
        "stop": None,
        "growth": 3.0,
        "sticky": True,
        "outcome_deadline": timedelta(days=7),
    }


RELEASE = '[release]\nstore = "r.db"\n'
UPSTREAM = RELEASE + '[release.gateway.old]\nurl = "http://a/v1"\n'
GATEWAY = '[gateway]\nstore = "g.db"\nold = {url = "http://a/v1", model = "m"}\n'
GATEWAY += 'scorers.v1.function = "judge:score"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there must be one of [release]"),
        (RELEASE + '[run]\ncontroller = "a:b"\n', "got ['release', 'run']"),
        (RELEASE + "[lisen]\n", "unknown field `lisen`"),
        (RELEASE + '[listen]\nhost = "0.0.0.0"\n', "listen.host must be a loopback address"),
        (RELEASE + "[release.flag]\nold = 1.0\nnew = 1.0\n", "two different values"),
        (UPSTREAM + '[release.gateway.new]\nurl = "ftp://a"\n', "`$.release.gateway.new.url`"),
        (RELEASE + "[[webhooks]]\n", "missing required field `url`"),
        (RELEASE + '[[webhooks]]\nurl = "${NOT_SET}"\n', "'NOT_SET' is not set"),
        ('[releases.v1]\nstore = "a"\n', "cannot be called 'v1'"),
        ("[releases]\na = {store = 'a', flag.key = 'b'}\nb.store = 'b'\n", "got ['b', 'b']"),
        ("gateway = 5\n", "got `int` - at `$.gateway`"),
        (GATEWAY + 'scorer = "v2"\n', "gateway.scorers has no 'v2'"),
        ("[release\n", "(at line 1, column 9)"),
        (RELEASE + '[[webhooks]]\nurl = "hooks.example.org/s3cret"\n', "url"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, monkeypatch, text, words):
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    assert words.lower() in str(error.value).lower()
    assert str(tmp_path / "serve.toml") in str(error.value)
    assert "s3cret" not in str(error.value)


def uncommented(text):
    """An example with what stands behind # as settings, as far as it is one."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("# store =", "# Several")):  # another file from here on
            break
        bare = line.removeprefix("# ")
        is_setting = line.startswith("# ") and (" = " in bare or bare.startswith("["))
        lines.append(bare if is_setting else line)
    return "\n".join(lines)


def test_the_examples_are_valid_and_name_every_setting(monkeypatch, tmp_path):
    for name in ("TETHER_STORE", "ALERTS_SECRET", "NAME", "OLD_API_KEY"):
        monkeypatch.setenv(name, "http://127.0.0.1")
    for path in ("serve.toml", "gateway.toml", "served_run.toml", "deploy/serve.toml"):
        read_service_settings(EXAMPLES / path)
    manifests = yaml.safe_load_all((EXAMPLES / "kubernetes" / "service.yml").read_text())
    (config,) = (each for each in manifests if each["kind"] == "ConfigMap")
    read(tmp_path, config["data"]["serve.toml"])
    text = uncommented((EXAMPLES / "serve.toml").read_text())
    given = read(tmp_path, text)
    written, structs = tomllib.loads(text), {"limits": settings.Limits, "listen": settings.Listen}
    for table, struct in structs.items():
        assert set(written[table]) == set(struct.__struct_fields__)
        assert getattr(given, table) == struct()  # what is behind # is the default
    release = set(settings.ReleaseTable.__struct_fields__)
    assert set(written["release"]) == release - {"gateway"}
