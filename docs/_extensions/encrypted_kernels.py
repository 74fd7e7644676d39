"""Lets the kernels that run the pages encrypt what they exchange with the build.

Without this, each kernel warns that others on the machine could read its code and outputs.
"""

from typing import Any

from nbclient import NotebookClient
from sphinx.application import Sphinx

_create_kernel_manager = NotebookClient.create_kernel_manager


def create_kernel_manager(client: NotebookClient) -> Any:
    """Create a client's kernel manager, which encrypts where its kernel can."""
    manager = _create_kernel_manager(client)
    if manager.has_trait("transport_encryption"):
        manager.transport_encryption = "auto"
    return manager


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    NotebookClient.create_kernel_manager = create_kernel_manager
    return {"parallel_read_safe": True, "parallel_write_safe": True}
