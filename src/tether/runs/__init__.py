"""Over time: runs of rounds and releases, in a store."""
