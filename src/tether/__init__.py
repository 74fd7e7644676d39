"""Conformal policy control."""
