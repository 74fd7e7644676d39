"""The page of a release: its share, its losses, its steps."""
