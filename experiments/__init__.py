"""The paper's experiments and some beyond it, one folder each: `python -m experiments.NAME`."""
