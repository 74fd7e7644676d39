"""Headers: what is of one connection or a secret stays, whatever case it has."""

from hypothesis import given
from hypothesis import strategies as st

from tether.service.gateway.passed_headers import answer_headers, request_headers

HOP_BY_HOP = [
    b"Connection", b"Keep-Alive", b"Proxy-Authenticate", b"Proxy-Authorization", b"TE", b"Trailer",
    b"Transfer-Encoding", b"Upgrade",
]  # fmt: skip
SECRET = [b"Authorization", b"X-API-Key", b"Cookie", b"X-Tether-Key"]
HARMLESS = [b"X-Request-Id", b"OpenAI-Beta"]


@given(
    st.lists(st.sampled_from([*HOP_BY_HOP, *SECRET, *HARMLESS]), max_size=20),
    st.sampled_from([bytes.lower, bytes.upper, bytes.title, bytes]),
)
def test_only_what_is_harmless_passes(names, case):
    headers = [(case(name), b"x") for name in names]
    expected = [(name.lower(), b"x") for name in names if name in HARMLESS]
    assert request_headers(headers) == expected
    back = [(name.lower(), b"x") for name in names if name in [*HARMLESS, b"X-API-Key"]]
    assert list(answer_headers(headers)) == back


def test_what_connection_names_does_not_pass():
    headers = [(b"connection", b"close, X-One"), (b"Connection", b"x-two"), (b"X-One", b"1")]
    assert request_headers([*headers, (b"X-TWO", b"2"), (b"X-Three", b"3")]) == [(b"x-three", b"3")]
