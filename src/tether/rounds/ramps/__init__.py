"""Ramps of policies in a run of rounds: which policy answers, and the steps of the ramp."""
