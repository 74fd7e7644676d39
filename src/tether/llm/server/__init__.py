"""Language models behind an OpenAI-compatible completions server as policies."""
