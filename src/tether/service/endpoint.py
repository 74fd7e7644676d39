"""An endpoint: one path and method, who may use it, what answers, and what the schema says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tether.service.content_answer import ContentAnswer

Schema = Mapping[str, Any]
Answer = Callable[[Request], Awaitable[Response]]

OTHER_ROUTE = "other"
"""What metrics and logs call every path that is none of the endpoints'."""


@dataclass(frozen=True)
class Endpoint:
    """What a service answers at one path.

    Parameters
    ----------
    method : str
        GET or POST.
    path : str
        The path; a last part in braces, as in `/flags/{key}`, stands for any text without a slash.
    role : str or None
        The role that an API key needs; None if anyone may use it.
    answer : callable
        Answers a request.
    summary : str
        What it does, in a sentence.
    body : mapping, optional
        The JSON schema of the request's body.
    result : mapping, optional
        The schema of the answer; any object by default.
    media : str
        The media type of the answer.
    statuses : sequence of int
        Statuses that it may answer with, beside 200 and those that every request may have.
    query : mapping, optional
        The schema of each parameter of the query, all of which may be left out.
    """

    method: str
    path: str
    role: str | None
    answer: Answer
    summary: str
    body: Schema | None = None
    result: Schema = field(default_factory=lambda: {"type": "object"})
    media: str = "application/json"
    statuses: Sequence[int] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def parameter(self) -> str | None:
        """The name of the last part of the path, if that stands for any text."""
        last = self.path.rpartition("/")[2]
        return last[1:-1] if last.startswith("{") else None


class Endpoints:
    """The endpoints of a service, found by the path of a request."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.all = tuple(endpoints)
        self._roles: dict[str, str | None] = {}
        self._parents: dict[str, str] = {}
        self._quick = {
            (each.method, each.path): each.answer
            for each in self.all
            if isinstance(each.answer, ContentAnswer)
        }
        for each in self.all:
            if self._roles.setdefault(each.path, each.role) != each.role:
                raise ValueError(f"{each.path} has two roles")
            if each.parameter is not None:
                self._parents[each.path.rpartition("/")[0]] = each.path
        self._plain = self._roles.keys() - set(self._parents.values())

    def route_of(self, path: str) -> str:
        """The path of the endpoint of a request, without what clients may choose."""
        if path in self._plain:
            return path
        return self._parents.get(path.rpartition("/")[0], OTHER_ROUTE)

    def quick_answer(self, method: str, route: str) -> ContentAnswer | None:
        """What answers a request without the web framework; None if nothing does."""
        return self._quick.get((method, route))

    def role_of(self, route: str) -> str | None:
        """The role that a route needs; None if anyone may use it."""
        return self._roles[route]

    def routes(self) -> list[Route]:
        """The routes of the web application."""
        return [Route(each.path, each.answer, methods=[each.method]) for each in self.all]
