"""Policies from causal language models of `transformers` that run in this process."""
