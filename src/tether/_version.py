"""The version: the one place where it is written. Packaging metadata reads it from here."""

__version__ = "0.1.0"
