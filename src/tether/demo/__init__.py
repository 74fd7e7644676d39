"""The demonstration that `tether demo` runs: whom to send to biopsy."""
