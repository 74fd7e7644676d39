"""Policies from language models behind an OpenAI-compatible completions server."""
