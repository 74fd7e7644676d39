"""The HTML report: one file with everything in it."""

from __future__ import annotations

from pathlib import Path

from tether._core import files
from tether.report import text_sections
from tether.report.acceptance_over_rounds import acceptance_chart
from tether.report.beta_over_rounds import beta_chart
from tether.report.chart_canvas import matplotlib_defaults
from tether.report.html_elements import Markup, element, join
from tether.report.number_format import format_number, format_time
from tether.report.page_frame import PageParts, page_text
from tether.report.page_opening import opening
from tether.report.releases.release_page import release_parts
from tether.report.reward_over_rounds import reward_chart
from tether.report.risk_over_rounds import realized_risk_chart
from tether.report.sample_size_over_rounds import sample_size_chart
from tether.report.sentences import run_state, target_name
from tether.report.share_over_rounds import share_chart
from tether.report.single_round_section import single_round
from tether.rounds.history import History
from tether.rounds.releases.release_history import ReleaseHistory


def render(history: History | ReleaseHistory) -> str:
    """Render the report on a run or a release as the text of one self-contained HTML file.

    The page needs no network and no other file. The same history gives the same text. Needs
    matplotlib (extra `plot`).

    Parameters
    ----------
    history : History or ReleaseHistory
        The record of a run or a release, from their `history` or from `tether.rounds.read_history`
        or `read_release`.

    Returns
    -------
    str
        The HTML text.

    Raises
    ------
    TypeError
        If `history` is neither of the two.
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
    if not isinstance(history, History | ReleaseHistory):
        raise TypeError(f"history must be a tether History, got {type(history).__name__}")
    with matplotlib_defaults():
        if isinstance(history, ReleaseHistory):
            return page_text(release_parts(history))
        return page_text(_run_parts(history))


def write(history: History | ReleaseHistory, path: str | Path, *, overwrite: bool = False) -> None:
    """Write the report on a run or a release to a file.

    Parameters
    ----------
    history : History or ReleaseHistory
        The record of a run or a release, from their `history` or from `tether.rounds.read_history`
        or `read_release`.
    path : str or Path
        The HTML file to write, for its owner alone to read (mode 0600).
    overwrite : bool, default False
        Whether to replace an existing file. A store is never replaced.

    Raises
    ------
    TypeError
        If `history` is neither of the two.
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


def _run_parts(history: History) -> PageParts:
    state = run_state(history)
    return PageParts(
        history.store,
        state,
        opening(history, state),
        _sections(history),
        "Settings of this run",
        _settings(history),
    )


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


def _settings(history: History) -> list[tuple[str, str]]:
    shortlists = [("Shortlists", f"{history.shortlist} candidates per action")]
    return [
        ("Store", history.store),
        ("Created", format_time(history.created)),
        ("Safe policy", history.safe),
        ("Family", history.family),
        *([] if history.shortlist is None else shortlists),
        *([] if history.is_ramp else [("Test weight", str(history.test_weight))]),
        (
            "Reference" if history.is_ramp else "Beta is relative to",
            f"the {history.against} policy",
        ),
        ("Calibration share", format_number(history.calibration_share)),
        ("Rounds", f"{len(history.rounds):,}"),
    ]
