"""Live servers for the tests of this folder: a start takes long, and each takes 3 GB of memory.

So one runs throughout, and others for the tests of one file.
"""

import pytest


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
    from tests.llm.live.vllm_server import VLLM

    with VLLM(folder) as running:
        yield running


@pytest.fixture(scope="module")
def exchanging_server(folder):
    """One whose adapters are exchanged: afterwards it mixes up weights, so others do not use it."""
    from tests.llm.live.vllm_server import VLLM

    with VLLM(folder, "--max-loras", "2") as running:
        yield running
