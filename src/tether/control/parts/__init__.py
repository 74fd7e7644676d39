"""Logs in parts: what is computed from rows that are never in memory together.

A kernel turns the columns of one part into a small summary; summaries merge in any order to the
same bits; and what a calibration needs is finished from the merged summary.
"""
