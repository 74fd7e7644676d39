"""The database of a run: tables, rows, and how they are written, read and exported."""
