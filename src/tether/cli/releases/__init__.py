"""`tether release`: a ramp from an old system to a new one, on the command line."""
