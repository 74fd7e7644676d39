"""Upstreams for the tests of this folder."""

import pytest

from tests.service.gateway.upstreams import upstream


@pytest.fixture(scope="module")
def old():
    """The old upstream."""
    with upstream("old") as made:
        yield made


@pytest.fixture(scope="module")
def new():
    """The new upstream."""
    with upstream("new") as made:
        yield made
