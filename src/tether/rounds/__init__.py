"""Over time: the controller, the store, and what a run has been so far."""
