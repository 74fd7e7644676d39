"""The tables `[[webhooks]]`."""

import pytest

from tether.service.settings.webhook_tables import Webhook, read_webhooks

URL = "https://hooks.example.org/services/T0/B0/secret"


def test_everything_may_be_set(monkeypatch):
    monkeypatch.setenv("HOOK_URL", URL)
    monkeypatch.setenv("HOOK_SECRET", "word")
    full = {
        "url_variable": "HOOK_URL",
        "events": ["alarm", "store"],
        "format": "text",
        "secret_variable": "HOOK_SECRET",
        "deadline": 2,
    }
    found = read_webhooks([{"url": "http://10.0.0.1:99/x?y=z"}, full])
    assert found == (
        Webhook("http://10.0.0.1:99/x?y=z", frozenset({"alarm", "halt", "resume"})),
        Webhook(URL, frozenset({"alarm", "store"}), "text", "word", 2.0),
    )
    assert read_webhooks(None) == ()
    for hidden in ("secret", "word"):
        assert hidden not in repr(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": URL}, "webhooks must be tables"),
        ([3], r"\[webhooks\[1\]\] must be a table, got 3"),
        ([{}], r"webhooks\[1\] must have either url or url_variable"),
        ([{"url": URL, "url_variable": "X"}], "must have either url or url_variable"),
        ([{"url": URL}, {"url": "secret"}], r"webhooks\[2\]\.url must be a URL such as"),
        ([{"url": "ftp://secret"}], "must be a URL"),
        ([{"url": "https://ann:secret@x.org"}], "must be a URL .* without a user"),
        ([{"url": "https://secret:0"}], "must be a URL"),
        ([{"url": "https://secret:99999"}], "must be a URL"),
        ([{"url": "https://x.org/a secret"}], "must be a URL"),
        ([{"url_variable": "TETHER_NOT_SET"}], "names 'TETHER_NOT_SET', which is not set"),
        ([{"url": URL, "events": ["cleared"]}], "some of alarm, halt, .*, got 'cleared'"),
        ([{"url": URL, "format": "xml"}], "one of json, text, got 'xml'"),
        ([{"url": URL, "deadline": 0}], "must be a number from 0.1 to 60, got 0"),
        ([{"url": URL, "secret_variable": "TETHER_NOT_SET"}], "which is not set"),
        ([{"url": URL, "retries": 3}], r"webhooks\[1\]\.retries is no setting"),
    ],
)
def test_errors_name_the_setting_and_show_no_secret(given, message):
    with pytest.raises(ValueError, match=message) as found:
        read_webhooks(given)
    assert "secret" not in str(found.value).replace("a secret", "").replace("secret_variable", "")
