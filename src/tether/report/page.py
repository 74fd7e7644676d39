"""The HTML report: one file with everything in it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

from tether._core import files
from tether.report import text_sections
from tether.report.acceptance_over_rounds import acceptance_chart
from tether.report.beta_over_rounds import beta_chart
from tether.report.chart_canvas import matplotlib_defaults
from tether.report.html_elements import Markup, element, join
from tether.report.html_tables import description_list
from tether.report.number_format import format_number, format_time
from tether.report.page_opening import banner, opening
from tether.report.reward_over_rounds import reward_chart
from tether.report.risk_over_rounds import realized_risk_chart
from tether.report.sample_size_over_rounds import sample_size_chart
from tether.report.sentences import RunState, run_state, target_name
from tether.report.share_over_rounds import share_chart
from tether.report.single_round_section import single_round
from tether.rounds.history import History


def render(history: History) -> str:
    """Render the report on a run as the text of one self-contained HTML file.

    The page needs no network and no other file. The same history gives the same text. Needs
    matplotlib (extra `plot`).

    Parameters
    ----------
    history : History
        The record of the run, from `Controller.history` or `tether.rounds.read_history`.

    Returns
    -------
    str
        The HTML text.

    Raises
    ------
    TypeError
        If `history` is not a `tether.rounds.History`.
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    write : Write the report to a file.

    Examples
    --------
    >>> import tether
    >>> safe = tether.Gaussian(0.0, 1.0)
    >>> with tether.Controller(safe, alpha=0.1, store="sqlite://") as controller:
    ...     page = tether.report.render(controller.history())
    >>> "No round has started yet." in page
    True
    """
    if not isinstance(history, History):
        raise TypeError(f"history must be a tether History, got {type(history).__name__}")
    with matplotlib_defaults():
        state = run_state(history)
        sections = _sections(history)
    script = _read_asset("script.js")
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        banner(history, [(name, title) for name, title, _ in sections]),
        element(
            "main",
            opening(history, state),
            [
                element(
                    "section",
                    element("h2", title, id=f"{name}-heading"),
                    content,
                    id=name,
                    aria_labelledby=f"{name}-heading",
                )
                for name, title, content in sections
            ],
            id="main",
            tabindex="-1",
        ),
        _footer(history),
        element("div", id="announcement", class_="visually-hidden", aria_live="polite"),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', _head(state, script), body, lang='en')}\n"


def write(history: History, path: str | Path, *, overwrite: bool = False) -> None:
    """Write the report on a run to a file.

    Parameters
    ----------
    history : History
        The record of the run, from `Controller.history` or `tether.rounds.read_history`.
    path : str or Path
        The HTML file to write, for its owner alone to read (mode 0600).
    overwrite : bool, default False
        Whether to replace an existing file. A store is never replaced.

    Raises
    ------
    TypeError
        If `history` is not a `tether.rounds.History`.
    FileExistsError
        If there is such a file and `overwrite` is false, or it is a store.
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    render : Return the text instead.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tether
    >>> safe = tether.Gaussian(0.0, 1.0)
    >>> with tether.Controller(safe, alpha=0.1, store="sqlite://") as controller:
    ...     history = controller.history()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     tether.report.write(history, path)
    ...     path.exists()
    True
    """
    files.write_text(path, render(history), overwrite=overwrite)


def _sections(history: History) -> list[tuple[str, str, Markup]]:
    """The id, the title and the content of every section."""
    sections = []
    if history.rounds:
        risks = [realized_risk_chart(history, name) for name in history.limits]
        shown = [chart.figure() for chart in risks if chart.tips]
        no_losses = element("p", "No losses have arrived yet.")
        charts = [
            share_chart(history) if history.is_ramp else beta_chart(history),
            reward_chart(history),
            acceptance_chart(history),
            sample_size_chart(history),
        ]
        figures = [chart.figure() for chart in charts if chart.tips]
        sections = [
            (
                "risk",
                f"Is the risk within {target_name(history.target)}?",
                join(*shown) if shown else no_losses,
            ),
            (
                "distance",
                "How far from the safe policy, and what was gained?",
                element("div", figures, class_="halves"),
            ),
        ]
        if not history.is_ramp:  # which has no curve and no weights
            sections.append(("one-round", "One round in detail", single_round(history)))
    sections += [
        ("assumptions", "Assumptions and checks", text_sections.assumptions_section(history)),
        ("alarms", "Alarms", text_sections.alarms_section(history)),
    ]
    if history.rounds:
        sections.append(("rounds", "All rounds", text_sections.all_rounds_section(history)))
    return sections


def _head(state: RunState, script: str) -> Markup:
    """The head of the page; its security policy allows this style and this script only."""
    style = _read_asset("style.css")
    policy = (
        f"default-src 'none'; style-src '{_source_hash(style)}'; "
        f"script-src '{_source_hash(script)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{state.heading}: {state.sentence} · tether report"),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
    )


def _footer(history: History) -> Markup:
    settings = [
        ("Store", history.store),
        ("Created", format_time(history.created)),
        ("Safe policy", history.safe),
        ("Family", history.family),
        *(
            []
            if history.shortlist is None
            else [("Shortlists", f"{history.shortlist} candidates per action")]
        ),
        *([] if history.is_ramp else [("Test weight", str(history.test_weight))]),
        (
            "Reference" if history.is_ramp else "Beta is relative to",
            f"the {history.against} policy",
        ),
        ("Calibration share", format_number(history.calibration_share)),
        ("Rounds", f"{len(history.rounds):,}"),
    ]
    return element(
        "footer",
        element("h2", "Settings of this run"),
        description_list(settings, "facts"),
    )


@cache
def _read_asset(name: str) -> str:
    return resources.files("tether.report").joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
