"""The table `gateway` with mode = "tethered"."""

import pytest

from tether.service import read_service_settings

START = """
[gateway]
mode = "tethered"
store = "a.db"
alpha = 0.1
{more}
[gateway.old]
url = "http://localhost:8000/v1/"
{old}
[gateway.scorer]
{scorer}
{end}
"""


def read(tmp_path, more="", old="", scorer='function = "a:b"', end=""):
    path = tmp_path / "serve.toml"
    path.write_text(START.format(more=more, old=old, scorer=scorer, end=end))
    return read_service_settings(path)


def test_the_least_that_is_needed(tmp_path):
    settings = read(tmp_path)
    made = settings.tethered
    assert settings.store == made.store == str(tmp_path / "a.db")
    assert (made.old.url, made.old.model, made.candidates) == ("http://localhost:8000/v1", None, 8)
    assert (made.scorer.name, made.scorer.function, made.scorer.url) == ("a:b", "a:b", None)
    assert made.controller == {"alpha": 0.1}
    assert made.folder == tmp_path


def test_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "secret")
    made = read(
        tmp_path,
        'candidates = 4\npick_temperature = 0\nspool = "s"\nmissing = "exclude"\n'
        'max_silence = "none"',
        'model = "m"\napi_key_variable = "KEY"\nmax_n = 1\ntimeout = 5\n'
        "settings = { temperature = 0.5 }",
        'name = "v2"\nurl = "http://localhost:9/score"\napi_key_variable = "KEY"\ntimeout = 1',
        '[gateway.past_scorers.v1]\nfunction = "a:b"\nbatched = true',
    ).tethered
    assert made.old.settings == {"temperature": 0.5}
    assert (made.old.api_key, made.old.max_n, made.scorer.api_key) == ("secret", 1, "secret")
    assert made.spool == str(tmp_path / "s")
    assert made.controller == {"alpha": 0.1, "missing": "exclude", "max_silence": None}
    assert [(each.name, each.batched) for each in made.past_scorers] == [("v1", True)]
    assert "secret" not in repr(made)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"more": "candidates = 1"}, "gateway.candidates must be an integer from 2"),
        ({"more": "beta = 1"}, "gateway.beta is no setting"),
        ({"old": 'key = "x"'}, "gateway.old.key is no setting"),
        ({"old": 'api_key_variable = "TETHER_UNSET"'}, "which is not set"),
        ({"old": "settings = 3"}, "must be a table"),
        ({"scorer": ""}, "either a function or a url, got neither"),
        ({"scorer": 'function = "a:b"\nurl = "http://x"'}, "got both"),
        ({"scorer": 'function = "a"'}, "gateway.scorer.function: an import path"),
        (
            {
                "scorer": 'name = "v"\nfunction = "a:b"',
                "end": '[gateway.past_scorers.v]\nurl = "x"',
            },
            "needs a new name",
        ),
        ({"end": '[release]\nstore = "x"'}, "one of"),
        ({"end": '[run]\ncontroller = "a:b"'}, "one of"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, **given)


def test_other_modes_are_refused(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text('[run]\ncontroller = "a:b"\n[gateway]\n')
    with pytest.raises(ValueError, match="it is for a release"):
        read_service_settings(path)
    path.write_text('[release]\nstore = "x"\n[gateway]\nmode = "tether"\n')
    with pytest.raises(ValueError, match=r'gateway.mode must be "release" or "tethered"'):
        read_service_settings(path)
