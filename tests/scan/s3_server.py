"""Object storage for tests: rclone serves a folder with the protocol of Amazon S3."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RCLONE = Path(sys.executable).parent / "rclone"
KEY, SECRET = "reader", "a/secret+of/the=tests"
STARTS_WITHIN = 60.0
"""How many seconds the server may take to say its port."""


@contextmanager
def s3_server(root: Path) -> Iterator[str]:
    """Serve the folders of a root as buckets; yields the options of an address.

    What is written into the folders is seen at once.
    """
    command = [RCLONE, "serve", "s3", root, "--addr", "127.0.0.1:0", "--config", ""]
    command += ["--auth-key", f"{KEY},{SECRET}", "--dir-cache-time", "0s", "--poll-interval", "0s"]
    with tempfile.NamedTemporaryFile() as said:
        process, begun = subprocess.Popen(command, stderr=said), time.monotonic()
        try:
            while not (found := re.search(r"127\.0\.0\.1:\d+", Path(said.name).read_text())):
                assert time.monotonic() < begun + STARTS_WITHIN, "rclone names no port"
                time.sleep(0.05)
            yield f"?endpoint_override={found[0]}&scheme=http&region=us-east-1"
        finally:
            process.kill()
            process.wait(STARTS_WITHIN)
