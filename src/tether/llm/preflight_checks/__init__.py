"""Checks that a language model's scores are the log-probabilities of what it samples."""
