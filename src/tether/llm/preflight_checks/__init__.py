"""Checks that the scores of a language model are those of what it samples."""
