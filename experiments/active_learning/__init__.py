"""Constrained active learning: label what the model is unsure of, at a risk that was agreed."""
