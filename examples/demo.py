"""Whom to send to biopsy: the same demonstration as `tether demo`."""

from tether.demo.biopsy import run
from tether.demo.biopsy_rounds import run_rounds

if __name__ == "__main__":
    run(overwrite=True)
    run_rounds(overwrite=True)
