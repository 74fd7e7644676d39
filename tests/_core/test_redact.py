"""Names of databases and messages without passwords."""

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tether._core.files import redact_text
from tether.runs.databases import Database
from tether.runs.errors import StoreError

SECRET = "Tr0ub4dor"
"""Occurs in no other part of a URL below."""


def shown(url):
    """What is shown of a store: its name, or the error."""
    try:
        return Database(url, create=False, deadline=1.0).name
    except (ValueError, StoreError) as error:
        return str(error)


CASES = {
    "runs/ward 7/clinic.db": "runs/ward 7/clinic.db",
    f"postgresql://ann:{SECRET}@host:5432/clinic": "postgresql://ann:***@host:5432/clinic",
    f"postgresql://ann@host/clinic?sslpassword={SECRET}": "postgresql://ann@host/clinic",
}
REFUSED = (f"postgresql://ann:p@{SECRET}@host:5432/x", f"postgresql:///ann:{SECRET}@host/clinic")


@pytest.mark.parametrize("name", [*CASES, *REFUSED])
def test_all_but_secrets_is_shown(name):
    assert CASES.get(name, "percent-encoded") in shown(name)
    assert SECRET not in shown(name)


ENCODINGS = (str, quote, quote_plus, lambda text: quote(text, safe=""))
TEMPLATES = (
    "postgresql://ann:{}@host:5432/clinic",
    "postgresql+psycopg://ann:{}@/clinic?sslmode=require",
    "postgresql://ann:{}@host:port/clinic",
    "postgresql://ann:{}@host:99999999/clinic",
    "postgresql://ann:{}",
    "postgresql://ann:{}/clinic",
    "postgresql://ann@host/clinic?password={}",
    "postgresql://ann@host/clinic?sslmode=require&sslpassword={}&port=3",
    "postgresql://ann@host/clinic?pass%77ord={}",
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
        name = shown(template.format(encode(secret)))
    except UnicodeEncodeError:  # quote of a lone surrogate
        return
    assert "ZQXJ" not in name
    # `scheme://user:left@right` without a host reads as a password `left` and a host `right`, and
    # nothing tells that from a well-formed URL: only the first half is known to be secret.
    if "@" not in secret or "@" in template or "ann:" not in template:
        assert "VKWY" not in name


def test_a_message_shows_no_login_of_a_url():
    message = "could not open postgresql://ann:s3cr%65t+x@host/clinic?a=b (file:///x)"
    assert redact_text(message) == "could not open postgresql://***@host/clinic?a=b (file:///x)"
    assert redact_text(name := shown("postgresql://ann:secret@host/clinic")) == name
