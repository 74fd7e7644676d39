"""Sequence design under a feasibility constraint, with a language model (paper, section 5.3)."""
