"""Decisions of a release and their outcomes, over OpenFeature and JSON."""
