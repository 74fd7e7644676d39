"""The files of the package that an everyday call runs through, for `tests/test_walks.py`.

python -m benchmarks.walks
"""

import tempfile
from pathlib import Path

from tests.test_walks import LIMITS, files_of

for walk, limit in LIMITS.items():
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(walk, Path(folder))
    print(f"{walk.__doc__}\n  {len(files)} files (at most {limit}): {', '.join(files)}")
