"""The page: one HTML file with everything in it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tether.report import beta_charts, outcome_charts, report_tables, round_detail, svg
from tether.report.markup import Markup, element, join
from tether.report.number_format import count, interval, moment, number
from tether.report.sentences import State, policy_name, promise, state, waiting, written_beta
from tether.rounds.history import History

ICONS = {"running": "●", "alarm": "▲", "safe": "■", "empty": "○"}


def render(history: History) -> str:
    """The report as the text of one HTML file, which needs nothing beside itself.

    The same history gives the same text. Needs matplotlib (extra `plot`).
    """
    if not isinstance(history, History):
        raise TypeError(f"history must be a tether History, got {type(history).__name__}")
    with svg.settings():
        now = state(history)
        sections = _sections(history)
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src '{_fingerprint(style)}'; "
        f"script-src '{_fingerprint(script)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{now.word}: {now.sentence} · tether report"),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        _banner(history, [(name, title) for name, title, _ in sections]),
        element(
            "main",
            _opening(history, now),
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
        element("div", id="spoken", class_="unseen", aria_live="polite"),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def write(history: History, path: str | Path) -> None:
    """Write the report to a file."""
    Path(path).write_text(render(history), encoding="utf-8")


def _sections(history: History) -> list[tuple[str, str, Markup]]:
    made = []
    if history.rounds:
        made_of = (
            beta_charts.how_far,
            outcome_charts.reward,
            beta_charts.acceptance,
            beta_charts.sample_size,
        )
        charts = [chart for chart in (make(history) for make in made_of) if chart.tips]
        halves = element("div", [each.figure() for each in charts], class_="halves")
        risk = outcome_charts.realized_risk(history)
        made = [
            ("risk", "Is the risk holding?", risk.figure() if risk.tips else _none("losses")),
            ("far", "How far did it go, and what for?", halves),
            ("closer", "A round, closely", round_detail.section(history)),
        ]
    made.append(
        ("assumptions", "What is assumed, and what was checked", report_tables.assumed(history))
    )
    made.append(("alarms", "Alarms", report_tables.alarms(history)))
    if history.rounds:
        content = join(element("p", waiting(history)), report_tables.rounds(history))
        made.append(("rounds", "All rounds", content))
    return made


def _none(what: str) -> Markup:
    return element("p", f"No {what} have arrived yet.")


def _banner(history: History, sections: list[tuple[str, str]]) -> Markup:
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in sections]
    return element(
        "header",
        element("div", element("span", "tether", class_="name"), " ", history.store),
        element(
            "button", "Dark theme", type="button", id="theme", aria_pressed="false", hidden=True
        ),
        element("nav", element("ul", links), aria_label="Sections"),
    )


def _opening(history: History, now: State) -> Markup:
    last = history.rounds[-1] if history.rounds else None
    standing = history.alarm is not None
    promised, why = promise(None if last is None or standing else last.calibration)
    return element(
        "div",
        element(
            "h1",
            element(
                "span",
                element("span", ICONS[now.kind], aria_hidden="true"),
                f" {now.word}",
                element("span", ": ", class_="unseen"),
                class_=f"state {now.kind}",
            ),
            _unbroken(now.sentence, policy_name(last) if last else None),
        ),
        element("p", now.more, class_="more") if now.more else None,
        element("p", element("strong", promised), " ", why, class_="promise"),
        element("dl", [round_detail.pair(*each) for each in _glance(history)], class_="glance"),
        class_="opening",
    )


def _unbroken(sentence: str, name: str | None) -> Any:
    """A sentence in which a name of ordinary length is not broken at its hyphens."""
    if not name or len(name) > 24 or name not in sentence:
        return sentence
    before, _, after = sentence.partition(name)
    return [before, element("span", name, class_="whole"), after]


def _glance(history: History) -> list[tuple[str, str, str]]:
    """The figures that come first: a term, a number, and what to hold it against."""
    shown = [("Tolerated: alpha", number(history.alpha), f"of at most {number(history.bound)}")]
    if not history.rounds:
        return shown
    last = history.rounds[-1]
    risk = next((each for each in reversed(history.rounds) if each.loss), None)
    if risk is not None and risk.loss is not None:
        shown.append(
            (f"Realized risk, round {risk.number}", number(risk.loss.mean), interval(risk.loss))
        )
    of = "suspended by the alarm" if history.alarm else policy_name(last) or "optimized policy"
    if last.calibration is None or not last.calibration.exists:
        of = "safe policy only"
    shown.append((f"Beta, round {last.number}", written_beta(last), of))
    paid = next((each for each in reversed(history.rounds) if each.reward), None)
    if paid is not None and paid.reward is not None:
        safe = history.safe_reward
        against = interval(paid.reward) if safe is None else f"safe policy {number(safe.mean)}"
        shown.append((f"Reward, round {paid.number}", number(paid.reward.mean), against))
    pending = sum(each.pending for each in history.rounds)
    shown.append(("Losses awaited", f"{pending:,}", f"missing = {history.missing}"))
    return shown


def _footer(history: History) -> Markup:
    terms = [
        ("Store", history.store),
        ("Created", moment(history.created)),
        ("Safe policy", history.safe),
        ("Family", history.family),
        ("Test weight", str(history.test_weight)),
        ("Measured against", f"the {history.against} policy"),
        ("Share for calibration", number(history.calibration_share)),
        ("Rounds", count(len(history.rounds), "round")),
    ]
    return element(
        "footer",
        element("h2", "Terms of this run"),
        element("dl", [round_detail.pair(*each) for each in terms], class_="facts"),
    )


@cache
def _asset(name: str) -> str:
    return files("tether.report").joinpath(name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
