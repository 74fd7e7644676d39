"""A real logged bandit: leaving uniform recommendations behind while clicks are kept."""
