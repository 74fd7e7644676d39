"""Rounds that aim: the optimized policy is tilted by a loss model before it is calibrated."""
