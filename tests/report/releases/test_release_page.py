"""The page of a release: what it shows, escaped, and with consistent references."""

import itertools
import re

import pytest

import tether
from tests.report.html_tree import parse
from tests.report.releases.example_releases import HOSTILE_NAME, example, rendered
from tether.report.number_format import format_interval, format_number
from tether.report.releases.release_sentences import format_share, release_state


def test_ids_references_and_headings_are_consistent(name):
    page = parse(rendered(name))
    ids = [node.attributes["id"] for node in page.find_all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.find_all():
        for attribute in ("aria-labelledby", "for"):
            assert node.attributes.get(attribute, ids[0]) in ids
        if (node.attributes.get("href") or "").startswith("#"):
            assert node.attributes["href"][1:] in ids
    levels = [int(node.tag[1]) for node in page.find_all() if re.fullmatch(r"h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_opening_states_the_share_and_the_promise(name):
    history, page = example(name), parse(rendered(name))
    opening = next(page.find_all("div", **{"class": "opening"}))
    assert release_state(history).sentence in opening.text
    assert f"Share of the new system{format_share(history.share)}" in opening.text
    if history.share > 0:
        for promise in history.steps[-1].calibration.promises.values():
            assert format_number(promise) in opening.text
    else:
        assert "No promise applies" in opening.text


def test_everything_that_looks_wrong_is_said_and_the_heading_is_no_plain_running(name):
    history, page = example(name), parse(rendered(name))
    opening = next(page.find_all("div", **{"class": "opening"}))
    said = [node.text for node in opening.find_all("p", **{"class": "warning"})]
    assert len(said) == len(history.warnings)
    for warning, shown in zip(history.warnings, said, strict=True):
        assert warning[1:] in shown
    is_plain = any(opening.find_all("span", **{"class": "state running"}))
    assert not (is_plain and history.warnings)


def test_a_bad_new_system_is_held_back():
    page = rendered("above_tolerated")
    assert "is above what is tolerated (0.03)" in page
    assert "Consider to halt it." in page
    assert "<title>Running, held back: " in page


def test_every_guardrail_has_its_figures():
    opening = next(parse(rendered("two_guardrails")).find_all("div", **{"class": "opening"}))
    terms = [node.text for node in opening.find_all("dt")]
    assert terms == [
        "Share of the new system",
        "Promise to keep of complaint",
        "complaint, new system",
        "complaint, old system",
        "Promise to keep of refund",
        "refund, new system",
        "refund, old system",
        "Keys answered",
    ]


def test_the_mean_of_the_new_system_is_over_all_steps_as_that_of_the_old_one():
    history = example("ramp")
    pooled, last = history.new_losses["complaint"], history.steps[-1].new.losses["complaint"]
    assert pooled.count > last.count
    opening = next(parse(rendered("ramp")).find_all("div", **{"class": "opening"}))
    assert (
        f"Mean loss, new system{format_number(pooled.mean)}{format_interval(pooled)} in all steps; "
        f"{format_number(last.mean)} in step {history.steps[-1].number}"
    ) in opening.text
    (step,) = {each.ramp for each in example("active_alarm").steps[-3:]}
    assert f" since step {step}; " in rendered("active_alarm")


def test_charts_and_sections(name):
    page = parse(rendered(name))
    sections = [node.attributes["id"] for node in page.find_all("section")]
    assert sections == ["share", "losses", "steps", "assumptions", "alarms"]
    charts = [node.attributes["id"] for node in page.find_all("figure")]
    losses = [f"chart-losses-{k + 1}" for k in range(len(example(name).limits))]
    assert charts == ["chart-share", *([] if name in ("started", "cleared_alarm") else losses)]
    if len(charts) == 1:
        assert "No losses have arrived yet." in page.text


def test_settings_stand_in_the_footer():
    (footer,) = parse(rendered("two_guardrails")).find_all("footer")
    for text in ("Settings of this release", "after 400 keys", "1 step later", "in expectation"):
        assert text in footer.text
    (footer,) = parse(rendered("confident")).find_all("footer")
    assert "with confidence 0.9, at all steps" in footer.text


def test_names_and_reasons_are_escaped():
    page = parse(rendered("hostile_names"))
    assert len(list(page.find_all("script"))) == 1
    assert HOSTILE_NAME in page.text
    assert "\u202e" not in rendered("hostile_names")


def test_the_same_release_gives_the_same_page_and_a_small_one():
    assert tether.report.render(example("ramp")) == rendered("ramp")
    assert len(rendered("ramp").encode()) < 100_000


def test_it_is_written_like_that_of_a_run(tmp_path):
    tether.report.write(example("ramp"), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == rendered("ramp")
    with pytest.raises(FileExistsError):
        tether.report.write(example("ramp"), tmp_path / "page.html")
