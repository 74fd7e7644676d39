"""Sentences and numbers of the dashboard of `tether.rounds`; `tether.view` replaces them."""
