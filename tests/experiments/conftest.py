"""The look of the experiments' figures stays in their own tests."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_look():
    import matplotlib as mpl

    with mpl.rc_context():
        yield
