"""Services for the tests of this folder."""

import pytest

from tests.runs.conftest import postgres_url, server  # noqa: F401
from tests.service.running import running, settings, upstream
from tests.view.headless_browser import driver  # noqa: F401


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a service without keys, with a gateway, that the tests of a module share."""
    with upstream("old") as old, upstream("new") as new:
        gateway = {name: {"url": each.url} for name, each in (("old", old), ("new", new))}
        with running(settings(tmp_path_factory.mktemp("serve"), {"gateway": gateway})) as made:
            yield made


@pytest.fixture
def upstreams():
    """The old and the new server behind a gateway."""
    with upstream("old") as old, upstream("new") as new:
        yield old, new
