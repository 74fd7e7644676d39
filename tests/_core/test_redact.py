"""Names of databases without their passwords."""

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tether._core.files import URL, redact_text, redact_url

SECRET = "Tr0ub4dor"
"""Occurs in no other part of a URL below."""

CASES = {
    "runs/ward 7/clinic.db": "runs/ward 7/clinic.db",
    "sqlite:///file:run.db?mode=ro&uri=true": "sqlite:///file:run.db?***",
    "postgresql+psycopg://ann@[::1]:5432,two:1/clinic?sslmode=require": (
        "postgresql+psycopg://ann@[::1]:5432,two:1/clinic?***"
    ),
    f"postgresql://ann:{SECRET}@host:5432/clinic": "postgresql://ann:***@host:5432/clinic",
    f"postgresql://ann@host/clinic?sslpassword={SECRET}": "postgresql://ann@host/clinic?***",
    f"postgresql://ann:p@{SECRET}@host:5432/clinic": "postgresql://***",
    f"postgresql:///ann:{SECRET}@host/clinic": "postgresql://***",
    f"host=db user=ann password={SECRET} dbname=clinic": "***",
}


@pytest.mark.parametrize("name", CASES)
def test_all_but_secrets_is_shown(name):
    assert redact_url(name) == CASES[name]
    assert (URL.fullmatch(name) is None) == ("p@" in name or "://" not in name)


ENCODINGS = (str, quote, quote_plus, lambda text: quote(text, safe=""))
TEMPLATES = (
    "postgresql://ann:{}@host:5432/clinic",
    "postgresql+psycopg://ann:{}@/clinic?sslmode=require",
    "postgresql://ann:{}@host:port/clinic",
    "postgresql://ann:{}@host:99999999/clinic",
    "postgresql://ann:{}",
    "postgresql://ann:{}/clinic",
    "postgres:/ann:{}@host/clinic",
    "postgresql:ann:{}@host/clinic",
    "ann:{}@host/clinic",
    "postgresql://ann@host/clinic?password={}",
    "postgresql://ann@host/clinic?sslmode=require&sslpassword={}&port=3",
    "postgresql://ann@host/clinic?pass%77ord={}",
    "host=db password={} dbname=clinic",
    "sqlite://ann:{}@host/run.db",
    "mysql://ann:{}@host/clinic",
)


@given(
    st.sampled_from(TEMPLATES),
    st.sampled_from(ENCODINGS),
    st.text(max_size=6),
    st.text(st.sampled_from("@:/?#&=%[];, '\"\\\n\x1b"), max_size=4),
    st.text(max_size=6),
)
@example(TEMPLATES[0], str, "", "@", "")
@example(TEMPLATES[4], str, "", "@host", "")
def test_no_part_of_a_password_is_shown(template, encode, before, between, after):
    """The two halves are letters that no template contains, whatever lies around them."""
    secret = before + "ZQXJ" + between + "VKWY" + after
    try:
        name = template.format(encode(secret))
    except UnicodeEncodeError:  # quote of a lone surrogate
        return
    shown = redact_url(name)
    if "@" in secret and "@" not in template and "ann:" in template:
        # `scheme://user:left@right` without a host reads as a password `left` and a host `right`,
        # and nothing tells that from a well-formed URL: only the first half is known to be secret.
        assert "ZQXJ" not in shown
        return
    assert "ZQXJ" not in shown
    assert "VKWY" not in shown


@given(st.text())
def test_any_text_is_redacted_without_an_error(text):
    redact_url(text)
    redact_text(text)


def test_a_message_shows_no_login_of_a_url():
    message = "could not open postgresql://ann:s3cr%65t+x@host/clinic?a=b (file:///x)"
    assert redact_text(message) == "could not open postgresql://***@host/clinic?a=b (file:///x)"
    assert redact_text(shown := redact_url("postgresql://ann:secret@host/clinic")) == shown
