"""What the README and the documents show works as it is written."""

import re
import tomllib
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```(?:python|\{code-cell\} python)\n(?::[^\n]*\n)*(.*?)```", re.S)
"""A block of Python that a page shows, or runs when the site is built, without its options."""


PRINTED = re.compile(r"\s*```text\n(.*?)```", re.S)
"""What a page shows directly below a block of Python as its output."""
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


PAGES = [README, *sorted(README.parent.glob("docs/**/*.md"))]
WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, text, output = {}, page.read_text("utf-8"), ""  # a page is read from top to bottom
    for example in EXAMPLE.finditer(text):
        exec(compile(example[1], page.name, "exec"), names)
        printed = capsys.readouterr().out
        output += printed
        if (shown := PRINTED.match(text, example.end())) is not None:
            _check_what_is_shown(shown[1], printed)
    if page == README:
        _check_the_ramp(names["release"].history())
        assert (tmp_path / "found.json").exists()
    if page.name == "control.md":
        assert "family geometric" in output
    if page.name == "canary.md":
        _check_the_tutorial(names["history"])


def _check_what_is_shown(shown, output):
    """The same words, and numbers that differ by rounding at most."""
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", output).split()
    found, expected = ([float(x) for x in NUMBER.findall(text)] for text in (output, shown))
    assert found == pytest.approx(expected, rel=2e-4, abs=1e-9)


def _check_the_ramp(release):
    """From two functions and a loss to the new system alone, through small shares."""
    shares = [step.share for step in release.steps]
    assert shares[0] == 0
    assert 0 < shares[1] < 0.1
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert all(step.calibration.promises["wrong"] <= 0.1 for step in release.steps[1:])


def _check_the_tutorial(release):
    """It says "at most 2 %", and prints no promise above it; its shares grow from day to day."""
    assert all(step.calibration.promises["complaint"] <= 0.02 for step in release.steps)
    shares = [step.share for step in release.steps]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)


def _project():
    return tomllib.loads((README.parent / "pyproject.toml").read_text("utf-8"))["project"]


def test_absolute_links_of_the_readme_lead_to_files_and_pages_that_exist():
    urls = _project()["urls"]
    site, repository = urls["Documentation"], urls["Repository"]
    targets = re.findall(r"\]\((https?://[^)#\s]+)", README.read_text("utf-8"))
    assert targets
    for target in targets:
        if target.startswith(repository):
            kind, _, path = target.removeprefix(repository + "/").partition("/main/")
            assert kind in {"blob", "raw"}, target
            assert (README.parent / path).is_file(), target
        elif target.startswith(site):
            page = target.removeprefix(site).strip("/") or "index.html"
            assert (README.parent / "docs" / page).with_suffix(".md").is_file(), target
        else:
            assert target.startswith("https://img.shields.io/badge/"), target


def test_the_readme_has_no_relative_links():
    """A package index shows it too, without the files around it."""
    targets = re.findall(r"\]\(([^)\s]+)", README.read_text("utf-8"))
    assert [target for target in targets if "://" not in target] == []


def test_the_badges_are_true():
    readme, project = README.read_text("utf-8"), _project()
    workflow = (README.parent / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    tested = re.search(r"python: \[(.*?)\]", workflow)[1].replace('"', "").split(", ")
    badges = re.findall(r"shields\.io/badge/([^)]+)", readme)
    assert badges == [
        f"python-{'%20%7C%20'.join(tested)}-blue",
        f"licence-{project['license']}-green",
    ]
    assert project["requires-python"] == f">={tested[0]}"


def test_the_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) < 120
