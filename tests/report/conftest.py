"""Every shape of a run is rendered once for all tests."""

from functools import cache

import pytest

from tests.report import histories
from tether.report import render


@cache
def rendered(shape: str) -> str:
    return render(made(shape))


@cache
def made(shape: str):
    return histories.SHAPES[shape]()


@pytest.fixture(params=sorted(histories.SHAPES))
def shape(request) -> str:
    return request.param
