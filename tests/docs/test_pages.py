"""What the README and the pages show works as it is written, and their links lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import tether

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
GENERATED = {"experiments", "gallery", "reference"}
"""Folders whose pages are written when the site is built."""
EXAMPLE = re.compile(r"```(?:python|\{code-cell\} python)\n(?::[^\n]*\n)*(.*?)```", re.S)
"""A block of Python that a page shows, or runs when the site is built, without its options."""
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.S)


def read(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [each for each in PAGES if EXAMPLE.search(read(each))], ids=lambda page: page.stem
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}  # a page is read from top to bottom
    for example in EXAMPLE.finditer(read(page)):
        exec(compile(example[1], page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", read(page)):
        if "://" not in target:
            place = page.parent / target
            parts = set(place.resolve().relative_to(ROOT).parts)
            assert place.exists() or GENERATED & parts, target


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in DOCS.glob("**/*.md"):
        for entries in TOCTREE.findall(read(page)):
            for entry in entries.split():
                found = list(page.parent.glob(f"{entry}.*")) or [page.parent / entry]
                listed |= {each.with_suffix("").resolve() for each in found}
    written = {
        page.with_suffix("").resolve()
        for page in DOCS.glob("**/*.md")
        if page.relative_to(DOCS).parts[0] not in {*GENERATED, "_build"}
    }
    assert written - listed - {DOCS / "index"} == set()


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert f"version: {tether.__version__}" in read(ROOT / "CITATION.cff")
    assert re.search(r"^## (\S+)", read(ROOT / "CHANGELOG.md"), re.M)[1] == tether.__version__
