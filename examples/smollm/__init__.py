"""A real small model under a tether, without a hub."""
