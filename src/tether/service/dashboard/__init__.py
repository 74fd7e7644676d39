"""The live page of a service: what is shown, who watches, and the page itself.

The browser draws the charts from the numbers of one JSON document, with a small script of our own.
matplotlib, which draws those of `tether report`, would need tenths of a second for every change and
another package on the server. Everything that the document says is computed where the report takes
it from: in `tether.rounds`, and its sentences in `tether.report`.
"""
