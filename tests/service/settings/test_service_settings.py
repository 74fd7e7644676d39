"""The TOML file of a service."""

import pytest

from tether.service import read_service_settings


def read(folder, text):
    (folder / "serve.toml").write_text(text)
    return read_service_settings(folder / "serve.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[release", "is not a TOML file"),
        ("", "release.store is missing"),
        ("release = 3", r"\[release\] must be a table, got 3"),
        ("[relaese]", r"relaese is no setting, got {}; there are \[release\]"),
        ('[release]\nstore = ""', "release.store must be a text in one line, got ''"),
        ("[release]\nstore = 3", "release.store must be a text in one line, got 3"),
        ('[release]\nstore = "a"\nalpha = 1', "release.alpha is no setting, got 1"),
        ('[release]\nstore = "a"\nsalt = "xy"', "release.salt must be in hexadecimal, got 'xy'"),
        ('[release]\nstore = "a"\nguardrails = 3', r"\[release.guardrails\] must be a table"),
        ('[release]\nstore = "a"\npromise = 0.1', "release.promise must be true or false, got 0.1"),
        ('[release]\nstore_variable = "TETHER_UNSET"', "'TETHER_UNSET', which is not set"),
        ('[release]\nstore = "a"\nstore_variable = "b"', "got both"),
        ("[listen]\nport = 70000", "listen.port must be an integer from 0 to 65535, got 70000"),
        ("[listen]\nport = true", "listen.port must be an integer from 0 to 65535, got True"),
        ('[release]\nstore = "a"\n[listen]\nhost = "0.0.0.0"', "listen.host must be a loopback"),
        ('[flag]\nkey = "a/b"', "flag.key must have 1 to 100 letters"),
        ("[flag]\nold = 1", "flag.new must be text, a number or a boolean, got None"),
        ('[flag]\nold = 1\nnew = "b"', "two different values of one type, got 1 and 'b'"),
        ("[flag]\nold = 1.0\nnew = inf", "flag.new must be text, a number or a boolean, got inf"),
        ("[limits]\nitems_per_request = 10001", "limits.items_per_request must be .* to 10000"),
        (
            "[limits]\nitems_per_request = 3501",
            "must be at most 3500, as many keys as",
        ),
        ("[limits]\nanswer_within = 0.005", "at most 500, .*answer_within = 0.005 s, got 1000"),
        ("[limits]\nbody_seconds = 0", "limits.body_seconds must be a number from 0.1 to 600"),
        ("[limits]\nconnections = 0", "limits.connections must be an integer from 1 to 100000"),
        ("[limits]\nburst = 0", "limits.burst must be an integer from 1 to 1000000000, got 0"),
        ("[limits]\nanswer_within = nan", "limits.answer_within must be a number from 0.001"),
        ('[access]\norigins = "a"', "access.origins must be a list of texts, got 'a'"),
        ('[access]\norigins = ["*"]', r"access.origins must be origins such as .*, got '\*'"),
        ("[logs]\nrequests = 1", "logs.requests must be true or false, got 1"),
    ],
)
def test_errors_name_the_setting_and_show_the_value(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"serve\.toml.*{message}"):
        read(tmp_path, text)
