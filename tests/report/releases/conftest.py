"""Tests that take `name` run on every example release."""

import pytest

from tests.report.releases.example_releases import EXAMPLES


@pytest.fixture(params=sorted(EXAMPLES))
def name(request) -> str:
    return request.param
