"""How far: from a log of what was done to the beta that may be deployed."""
