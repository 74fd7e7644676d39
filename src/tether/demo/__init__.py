"""The demonstration: whom to send to biopsy."""
