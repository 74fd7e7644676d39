"""The key of a request, and how it is sent back."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from tether.service.api_errors import ApiError
from tether.service.gateway.unit_key import shown_key, unit_key


def key(body, header=None):
    raw = [] if header is None else [(b"x-tether-key", header)]
    return unit_key(Headers(raw=raw), body)


def test_the_header_comes_first_and_then_the_newer_field():
    body = {"user": "u", "safety_identifier": "s"}
    assert key(body, b"h") == b"h"
    assert key(body) == b"s"
    assert key({"user": "u"}) == key({"user": "u", "safety_identifier": None}) == b"u"
    assert key({"user": 42}) == b"42"


def test_otherwise_each_request_has_a_key_of_its_own():
    keys = {key({"user": each}) for each in (None, "", None)} | {key({})}
    assert len(keys) == 4
    assert all(len(each) == 32 for each in keys)


@pytest.mark.parametrize("user", [True, 1.5, [], {}, "x" * 501, "a\0b", "\ud800"])
def test_others_are_refused(user):
    with pytest.raises(ApiError, match="user"):
        key({"user": user})


@given(st.text(st.characters(codec="utf-8"), min_size=1).map(str.encode))
def test_any_key_is_sent_back_as_printable_ascii(content):
    shown = shown_key(content)
    assert all(" " <= each <= "~" for each in shown)
    assert shown == shown.strip()
    assert unquote(shown) == content.decode()
