"""The top of the page: the banner, the state of the run, its promise and its key figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tether.report.html_elements import Content, Markup, element
from tether.report.html_tables import description_list
from tether.report.number_format import format_interval, format_number
from tether.report.sentences import (
    RunState,
    loss_suffix,
    policy_name,
    round_beta,
    run_promise,
)

if TYPE_CHECKING:
    from tether.rounds.history import History

STATE_ICONS = {"running": "●", "held": "◆", "alarm": "▲", "safe": "■", "empty": "○"}
MAX_UNBROKEN_NAME = 24
"""A policy name of up to this many characters is not broken at its hyphens in the heading."""


def banner(store: str, sections: list[tuple[str, str]]) -> Markup:
    """The name of the store, links to all sections, and the button for the theme."""
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in sections]
    return element(
        "header",
        element("div", element("span", "tether", class_="name"), " ", store),
        element(
            "button", "Dark theme", type="button", id="theme", aria_pressed="false", hidden=True
        ),
        element("nav", element("ul", links), aria_label="Sections"),
    )


def opening(history: History, state: RunState) -> Markup:
    """The state of the run in a sentence, what is promised now, and the key figures."""
    last = history.rounds[-1] if history.rounds else None
    return opening_block(
        state,
        _keep_name_unbroken(state.sentence, policy_name(last) if last else None),
        run_promise(history),
        _key_figures(history),
    )


def opening_block(
    state: RunState,
    sentence: Content,
    promise: tuple[str, str],
    figures: Sequence[Sequence[str]],
) -> Markup:
    """A state, its sentence and warnings, a promise with its explanation, and key figures."""
    stated, explanation = promise
    return element(
        "div",
        element(
            "h1",
            element(
                "span",
                element("span", STATE_ICONS[state.kind], aria_hidden="true"),
                f" {state.heading}",
                element("span", ": ", class_="visually-hidden"),
                class_=f"state {state.kind}",
            ),
            sentence,
        ),
        element("p", state.details, class_="details") if state.details else None,
        [element("p", note, class_="warning") for note in state.notes],
        element("p", element("strong", stated), " ", explanation, class_="promise"),
        description_list(figures, "key-figures"),
        class_="opening",
    )


def _keep_name_unbroken(sentence: str, name: str | None) -> Content:
    """Mark a name of ordinary length in a sentence, so that no line breaks at its hyphens."""
    if not name or len(name) > MAX_UNBROKEN_NAME or name not in sentence:
        return sentence
    before, _, after = sentence.partition(name)
    return [before, element("span", name, class_="unbroken"), after]


def _tolerated(history: History, name: str) -> str:
    of = loss_suffix(history, name)
    return f"Promise to keep{of}" if history.target == "promise" else f"Tolerated risk{of}, alpha"


def _key_figures(history: History) -> list[tuple[str, str, str]]:
    """The figures that come first: a term, a number, and what to compare it with."""
    figures = [
        (
            _tolerated(history, name),
            format_number(limit.alpha),
            f"losses lie between 0 and {format_number(limit.bound)}",
        )
        for name, limit in history.limits.items()
    ]
    if not history.rounds:
        return figures
    last = history.rounds[-1]
    for name in history.limits:
        with_loss = [record for record in history.rounds if name in record.losses]
        if with_loss:
            number, loss = with_loss[-1].number, with_loss[-1].losses[name]
            term = f"Realized risk{loss_suffix(history, name)}, round {number}"
            figures.append((term, format_number(loss.mean), format_interval(loss)))
    calibrated = last.calibration is not None and last.calibration.exists
    calibrated = calibrated or last.share > 0
    if not calibrated:
        meaning = "safe policy only"
    elif history.alarm:
        meaning = "suspended by the alarm"
    else:
        meaning = policy_name(last) or "optimized policy"
    measure = "Share" if history.is_ramp else "Beta"
    figures.append((f"{measure}, round {last.number}", round_beta(last), meaning))
    with_reward = [(record.number, record.reward) for record in history.rounds if record.reward]
    if with_reward:
        number, reward = with_reward[-1]
        safe = history.safe_reward
        comparison = (
            format_interval(reward) if safe is None else f"safe policy {format_number(safe.mean)}"
        )
        figures.append((f"Mean reward, round {number}", format_number(reward.mean), comparison))
    pending = sum(record.pending for record in history.rounds)
    figures.append(("Losses pending", f"{pending:,}", f"missing = {history.missing}"))
    return figures
