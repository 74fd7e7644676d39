"""Whom to send to biopsy: the demonstration that `tether demo` runs as well."""

from tether.demo import run

if __name__ == "__main__":
    run()
