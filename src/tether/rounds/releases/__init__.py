"""Releases kept in a store: which system answers each key, and the steps of the ramp."""
