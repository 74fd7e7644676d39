"""Endpoints are found by the path of a request, whatever clients write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse

from tether.service.endpoint import OTHER_ROUTE, Endpoint, Endpoints

FOUND = Endpoints(
    Endpoint("POST", path, role, PlainTextResponse("here"), "Answer.")
    for path, role in {"/flags": "decide", "/flags/{key}": "read", "/health": None}.items()
)


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/flags", "/flags"),
        ("/flags/", "/flags/{key}"),
        ("/flags/any", "/flags/{key}"),
        ("/flags/{key}", "/flags/{key}"),
        ("/flags/any/more", OTHER_ROUTE),
        ("/flagsx", OTHER_ROUTE),
        ("/health/", OTHER_ROUTE),
        ("", OTHER_ROUTE),
    ],
)
def test_the_route_of_a_path(path, route):
    assert FOUND.route_of(path) == route


@given(st.text(alphabet="/{}flagskeyhth", max_size=14))
def test_a_path_that_the_router_takes_has_the_role_of_its_endpoint(path):
    scope = {"type": "http", "path": path, "method": "POST", "headers": []}
    taken = [route.path for route in FOUND.routes() if route.matches(scope)[0].value == 2]
    assert not taken or FOUND.route_of(path) == taken[0]


def test_a_path_has_one_role():
    two = [Endpoint("GET", "/a", role, PlainTextResponse(""), "Answer.") for role in ("read", None)]
    with pytest.raises(ValueError, match="/a has two roles"):
        Endpoints(two)
