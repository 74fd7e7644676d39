"""Constrained Bayesian optimization of the Townsend function at a tolerated violation rate."""
