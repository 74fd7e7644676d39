"""Files about the project agree with the package, and their links lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import tether

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")),
    *sorted((ROOT / "docs" / "contributing" / "decisions").glob("*.md")),
]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_package_says_its_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", tether.__version__)


def test_packaging_metadata_is_read_from_the_package():
    settings = tomllib.loads(read("pyproject.toml"))
    assert "version" not in settings["project"]
    assert "version" in settings["project"]["dynamic"]
    source = read(settings["tool"]["hatch"]["version"]["path"])
    assert re.findall(r'^__version__ = "(.+)"$', source, re.M) == [tether.__version__]


def test_the_citation_file_agrees():
    assert re.findall(r"^version: (.+)$", read("CITATION.cff"), re.M) == [tether.__version__]


def test_the_top_entry_of_the_changelog_agrees():
    top = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M)
    assert top is not None
    assert top[1] == tether.__version__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_project_pages_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [name for name in targets if "://" not in name and not (page.parent / name).exists()]
    assert missing == []


def test_every_decision_is_in_the_index():
    index = read("docs/contributing/decisions/README.md")
    for record in (ROOT / "docs" / "contributing" / "decisions").glob("0*.md"):
        number, _, title = record.read_text(encoding="utf-8").partition("\n")[0].partition(": ")
        assert f"| [{number.removeprefix('# ')}]({record.name}) | {title} |" in index
