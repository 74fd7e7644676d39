"""Routing between a cheap and an expensive language model at a tolerated risk."""
