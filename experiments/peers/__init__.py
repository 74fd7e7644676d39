"""Tether beside its peers, on the tasks that they can express."""
