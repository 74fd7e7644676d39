"""The database of a run: its tables, and how they are written, read and exported."""
