"""The files of the package that an everyday call runs through: `python -m benchmarks.walks`."""

import tempfile
from pathlib import Path

from tests.test_walks import LIMITS, files_of

for walk in LIMITS:
    print(walk.__doc__, *(files := files_of(walk, Path(tempfile.mkdtemp()))), len(files))
