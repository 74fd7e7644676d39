"""How the largest beta is found: exactly for clip and mix, by a certified search otherwise."""
