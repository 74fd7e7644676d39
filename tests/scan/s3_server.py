"""Object storage for tests: rclone serves a folder with the protocol of Amazon S3."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

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
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines: Queue[str] = Queue()
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stderr or ()])
    reader.start()
    try:
        port = _port(lines)
        yield f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        process.kill()
        process.wait(STARTS_WITHIN)
        reader.join(STARTS_WITHIN)
        process.stderr.close()


def _port(lines: Queue[str]) -> str:
    said = ""
    while (found := re.search(r"http://127\.0\.0\.1:(\d+)", said)) is None:
        try:
            said += lines.get(timeout=STARTS_WITHIN)
        except Empty:
            raise RuntimeError(f"rclone names no port: {said}") from None
    return found[1]
