"""What to show: a run as one document, for a page, a terminal and a notebook; results as figures.

`document(history)` says everything about a run of either kind in plain JSON values. The live page,
the report in one file, `print(history)`, `tether status` and notebooks show it. Figures of results
are drawn by matplotlib. Nothing here computes what is not in the history or in the result.

A service answers the live page, `page_html()`, at a path that ends in a slash. Relative to that
path, the page asks every second for

- `GET v1/document?seen=SEQ`: `{"as_of": time, "seq": integer, "document": document(history),
  "live": {"you": {"name": text, "roles": [text]}, "outage": text or null, "more": {"may_begin":
  boolean, "beginning": integer or null}}}`. The document is null if there is no newer one;
- `POST v1/halt`, `v1/resume`, `v1/advance` (with the `step` that ends) or `v1/begin` (with the
  `round` that ends), and `{"reason": text}`, when somebody acts. An answer that is not a success
  has `{"error": {"message": text}}`.
"""

from __future__ import annotations

from tether.view.page import page_html, write_report
from tether.view.run_document import document

__all__ = ["document", "page_html", "write_report"]
