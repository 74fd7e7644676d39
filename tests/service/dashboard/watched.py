"""Something to watch that changes when it is told to."""
