"""The OpenAPI schema of a service, from its endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tether._version import __version__
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import TEXT_SCHEMA

STATUS_WORDS = {
    304: "Nothing has changed.",
    400: "The request is invalid.",
    401: "A valid API key is needed.",
    403: "The API key has not the role.",
    404: "There is no such flag.",
    408: "The body was sent too slowly.",
    409: "It contradicts what is stored.",
    412: "The gate is closed.",
    413: "The body is too long.",
    429: "Too many requests.",
    502: "Neither system has answered.",
    503: "The store is unavailable: repeat the request.",
}
"""What the schema says of each status."""
_REFUSED = (401, 403, 429)
_REFUSED_BODIES = (400, 408, 413)


def openapi(title: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The schema of a service."""
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"tether: {title}", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    content = {endpoint.media: {"schema": endpoint.result}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    refused = set(endpoint.statuses)
    made: dict[str, Any] = {"summary": endpoint.summary, "responses": responses}
    if endpoint.role is not None:
        made["description"] = f"Needs the role {endpoint.role!r}."
        made["security"] = [{"bearer": []}, {"header": []}]
        refused |= set(_REFUSED)
    if endpoint.body is not None:
        body = {"application/json": {"schema": endpoint.body}}
        made["requestBody"] = {"required": True, "content": body}
        refused |= set(_REFUSED_BODIES)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": schema} for name, schema in endpoint.query.items()
    ]
    if (name := endpoint.parameter) is not None:
        parameters.append({"name": name, "in": "path", "required": True, "schema": TEXT_SCHEMA})
    if parameters:
        made["parameters"] = parameters
    for status in sorted(refused):
        responses[str(status)] = {"description": STATUS_WORDS[status]}
    return made
