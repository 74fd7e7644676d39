"""Every command with every bad input: files, stores, and values of options.

    python -m benchmarks.bad_inputs

Prints each fault (a traceback, a control character in the output, a result that is no number, a
password, an exit code that is not documented) and how many inputs there were.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.cli.bad_inputs import everything
from tests.cli.output_faults import all_faults


def main() -> None:
    warnings.simplefilter("error")
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        commands = everything(Path(folder))
        found = all_faults(commands)
        os.chdir("/")
    for fault in found:
        print(fault)
    seconds = time.perf_counter() - begun
    print(f"{len(commands):,} inputs, {len(found)} with a fault, {seconds:.0f} s")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
