"""What tether costs and whether it holds: every figure in the documentation comes from here."""
