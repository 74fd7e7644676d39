"""Figure 2 of the paper: losses that are not monotone in the threshold."""
