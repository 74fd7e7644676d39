"""Where data sets come from: `$TETHER_DATA`, a local cache, or their public source.

No data file is part of the project. Each is known by its SHA-256, wherever it is found.
"""
