"""Names of databases without their passwords.

A URL shows its parts only where their meaning is beyond doubt; whatever could be a password, or a
piece of one, becomes `***`. A URL that is not well formed may have its password anywhere (after a
second "@", in the place of the port), so of such a URL only the scheme is shown.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
"""What stands in the place of a password."""
SHOWN_QUERY_KEYS = frozenset(
    {"application_name", "connect_timeout", "dbname", "host", "mode", "port", "sslmode", "uri"}
)
"""The parameters of a URL whose values are shown; the value of any other may be a secret."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_HOSTS = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)?(?::[0-9]{1,5})?"
_NETWORK_URL = re.compile(
    rf"""(?:(?P<user>[^:@/?\#]*)(?P<password>:[^@/?\#]*)?@)?
    (?P<hosts>{_HOSTS}(?:,{_HOSTS})*)
    (?P<database>/[^@?\#]*)?
    (?P<query>\?[^@\#]*)?""",
    re.VERBOSE | re.ASCII,
)
_FILE_URL = re.compile(r"(?P<path>/[^?]*|)(?P<query>\?.*)?", re.DOTALL)
_PLAIN_TEXT = re.compile(r"[\w.,/+ -]*", re.ASCII)
_PLAIN_VALUE = re.compile(r"[\w.,:/\[\]-]*", re.ASCII)
_SECRET_ASSIGNMENT = re.compile(r"((?:pass|pwd|secret|token)[a-z_]{0,20})\s{0,9}=", re.I)
_URL_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}:/{1,3})(\S*)@")
_REDACTED_USER = re.compile(r"[\w.-]*:\*\*\*", re.ASCII)


def redact_url(text: str) -> str:
    """The name of a store, a URL or a path, without a password.

    >>> redact_url("postgresql://ann:secret@db.example.org:5432/clinic?sslmode=require")
    'postgresql://ann:***@db.example.org:5432/clinic?sslmode=require'
    >>> redact_url("postgresql://ann:sec@ret@db.example.org/clinic")
    'postgresql://***'
    >>> redact_url("runs/clinic.db")
    'runs/clinic.db'
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _redact_path(text)
    parts, rest = _parts(text)
    start = scheme[0]
    if parts is None:
        return f"{start}{HIDDEN}"
    query = _redact_query(parts["query"])
    if "path" in parts:
        return f"{start}{_redact_path(rest[: len(parts['path'] or '')])}{query}"
    user = "" if parts["user"] is None else f"{_plain(parts['user'])}"
    if parts["password"] is not None:
        user += f":{HIDDEN}"
    at = "" if parts["user"] is None else "@"
    database = "" if parts["database"] is None else f"/{_plain(parts['database'][1:])}"
    return f"{start}{user}{at}{parts['hosts']}{database}{query}"


def is_well_formed(text: str) -> bool:
    """Whether a text is a path, or a URL of which every part is beyond doubt.

    In a URL, the characters `@ : / ? #` of a user, password or database must be percent-encoded.

    >>> is_well_formed("postgresql://ann:sec%40ret@localhost/clinic")
    True
    >>> is_well_formed("postgresql://ann:sec@ret@localhost/clinic")
    False
    """
    return _SCHEME.match(text) is None or _parts(text)[0] is not None


def redact_message(message: str, url: str) -> str:
    """A message without the URL and without the password that the URL contains.

    >>> redact_message("no route for 'secret'", "postgresql://ann:secret@localhost/clinic")
    "no route for '***'"
    """
    hidden = {url: redact_url(url)}
    parts, _ = _parts(url)
    secrets = _query_secrets(parts["query"]) if parts is not None else []
    if parts is not None and parts.get("password"):
        secrets.append(str(parts["password"])[1:])
    for secret in secrets:
        for form in (secret, unquote(secret), unquote_plus(secret)):
            hidden.setdefault(form, HIDDEN)
            hidden.setdefault(repr(form)[1:-1], HIDDEN)
    hidden.setdefault(repr(url)[1:-1], hidden[url])
    for part in sorted(filter(None, hidden), key=len, reverse=True):
        message = message.replace(part, hidden[part])
    return message


def redact_text(message: str) -> str:
    """A message in which the user and the password of every URL are hidden.

    A URL in a message has no known end, so this is for messages about other things than a store,
    in which a URL may still stand: that of an argument in the wrong place.

    >>> redact_text("there is no file postgresql://ann:secret@localhost/clinic")
    'there is no file postgresql://***@localhost/clinic'
    """
    return _URL_IN_TEXT.sub(
        lambda url: url[0] if _REDACTED_USER.fullmatch(url[2]) else f"{url[1]}{HIDDEN}@", message
    )


def _parts(text: str) -> tuple[dict[str, str | None] | None, str]:
    """The parts of a URL, or None if it is not well formed; and what follows its scheme."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return None, text
    rest = text[scheme.end() :]
    is_file = scheme[1].lower().partition("+")[0] in ("sqlite", "file")
    found = (_FILE_URL if is_file else _NETWORK_URL).fullmatch(rest)
    return (None if found is None else found.groupdict()), rest


def _redact_path(path: str) -> str:
    """A path, in which a password can only be if it is a misspelled URL or a list of settings."""
    if assignment := _SECRET_ASSIGNMENT.search(path):
        path = f"{path[: assignment.end(1)]}={HIDDEN}"
    colon, at = path.find(":"), path.rfind("@")
    return f"{path[:colon]}:{HIDDEN}{path[at:]}" if 0 <= colon < at else path


def _redact_query(query: str | None) -> str:
    if query is None:
        return ""
    shown = []
    for entry in query[1:].split("&"):
        key, separator, value = entry.partition("=")
        known = separator and key in SHOWN_QUERY_KEYS and _PLAIN_VALUE.fullmatch(value)
        shown.append(entry if known else f"{key}={HIDDEN}" if _is_name(key) else HIDDEN)
    return "?" + "&".join(shown)


def _query_secrets(query: str | None) -> list[str]:
    """The values of a query that are not shown."""
    entries = [] if query is None else [entry.partition("=") for entry in query[1:].split("&")]
    return [value for key, _, value in entries if key not in SHOWN_QUERY_KEYS]


def _is_name(key: str) -> bool:
    """Whether a key of a query is the name of a parameter that holds a secret, and not one."""
    return key in SHOWN_QUERY_KEYS or key in ("password", "sslpassword", "passfile", "options")


def _plain(text: str) -> str:
    return text if _PLAIN_TEXT.fullmatch(text) else HIDDEN
