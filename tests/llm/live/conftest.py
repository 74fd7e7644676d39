"""Live servers for the tests of this folder: a start takes long, and each takes 3 GB of memory.

So one runs throughout, and others for the tests of one file.
"""

import pytest

from tests.llm.live.live_policies import PROGRAM


def started(folder, *options, **settings):
    """A server, or a skipped test where none can be started."""
    if PROGRAM is None:
        pytest.skip("TETHER_VLLM names no vLLM")
    from tests.llm.live.vllm_server import VLLM

    return VLLM(folder, *options, **settings)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a tiny model and its adapters."""
    from tests.llm.live.vllm_server import make_models

    made = tmp_path_factory.mktemp("models")
    make_models(made)
    return made


@pytest.fixture(scope="session")
def server(folder):
    """A vLLM that serves `base` and the adapter `tuned`."""
    with started(folder) as running:
        yield running


@pytest.fixture(scope="module")
def exchanging_server(folder):
    """One whose adapters are exchanged: afterwards it mixes up weights, so others do not use it."""
    with started(folder, "--max-loras", "2") as running:
        yield running
