"""Many small fits: threads of linear algebra would wait for each other."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture
def one_thread():
    with threadpool_limits(1):
        yield
