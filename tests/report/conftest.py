"""Tests that take `name` run on every example history."""

import pytest

from tests.report.example_histories import EXAMPLES


@pytest.fixture(params=sorted(EXAMPLES))
def name(request) -> str:
    return request.param
