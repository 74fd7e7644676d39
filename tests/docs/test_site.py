"""The site has a page for everything, and its pages show what really comes out."""

import importlib
import pkgutil
import re
from pathlib import Path

import tether
from tether.control.summary import describe_calibration

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"experiments", "gallery", "reference"}
"""Folders whose pages are written when the site is built."""
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.S)
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.S)


def _rooms():
    """Every package of tether that has public names."""
    for module in pkgutil.iter_modules(tether.__path__, "tether."):
        public = module.ispkg and not module.name.startswith("tether._")
        if public and hasattr(importlib.import_module(module.name), "__all__"):
            yield module.name


def test_the_reference_has_a_page_for_every_room_with_public_names(extension):
    rooms = extension("reference_pages").ROOMS
    assert set(rooms) == {"tether", *_rooms()}
    listed = re.findall(
        r"\{doc\}`(\S+) <\1>` \|", (DOCS / "reference" / "index.md").read_text("utf-8")
    )
    assert sorted(listed) == sorted(rooms)


def test_types_in_docstrings_lead_to_the_pages_of_classes(extension):
    pages = extension("reference_pages")
    classes = pages.addresses_of_classes()
    assert classes["Calibration"] == "tether.Calibration"
    assert classes["Guardrail"] == "tether.release.Guardrail"
    assert "ramp_share" not in classes
    assert pages.addresses()["ramp_share"] == "tether.release.ramp_share"


def test_the_command_line_has_a_page_with_every_command_and_option(extension):
    written = extension("command_line_page").page()
    for command in ("tether calibrate", "tether filter", "tether release start"):
        assert f"\n## {command}\n" in written
    options = set(re.findall(r"^\| `[^`]*?(--[a-z-]+)", written, re.M))
    assert {"--what-if", "--max-ratio", "--item", "--mark", "--no-context"} <= options
    assert "\\[default: log\\_safe\\]" in written, "defaults are shown, and are no markup"
    rows = [line for line in written.splitlines() if line.startswith("| ")]
    assert any("\\|" in row for row in rows)
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 3, row


def _listed(page):
    """The pages that the tables of contents of a page name."""
    for entries in TOCTREE.findall(page.read_text("utf-8")):
        for entry in entries.splitlines():
            if entry and not entry.startswith(":"):
                names = page.parent.glob(f"{entry}.*") if "*" in entry else ()
                yield from names or [page.parent / entry]


def test_every_page_and_notebook_is_in_a_table_of_contents():
    pages = [
        page
        for pattern in ("*.md", "*/*.md", "*/*/*.md", "notebooks/*.ipynb")
        for page in DOCS.glob(pattern)
        if page.relative_to(DOCS).parts[0] not in {*GENERATED, "_build"}
    ]
    listed = {
        entry.with_suffix("").resolve()
        for page in pages
        if page.suffix == ".md"
        for entry in _listed(page)
    }
    written = {page.with_suffix("").resolve() for page in pages} - {DOCS / "index"}
    assert written - listed == set()
    missing = {
        page for page in listed - written if page.relative_to(DOCS).parts[0] not in GENERATED
    }
    assert missing == set()


def test_the_summary_that_is_explained_is_that_of_the_first_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how_to" / "read_the_summary.md").read_text("utf-8")
    shown = page.split("```{code-cell} python\n:tags: [remove-input]\n\n")[1].split("```")[0]
    names, code = {}, []
    cells = CELL.findall((DOCS / "start" / "ten_minutes.md").read_text("utf-8"))
    while "found" not in names:
        code.append(cells.pop(0))
        exec(compile(code[-1], "ten_minutes", "exec"), names)
    assert shown == "\n".join(code)
    rows = re.findall(r"^\| ([^|]+) \|", page, re.M)
    lines = {line for row in rows for line in row.split(", ")}
    facts = {name.split(", ")[0] for name, _ in describe_calibration(names["found"]).facts}
    assert facts - lines == {"log"}, "every other line is explained"


def test_no_page_draws_a_picture_without_showing_it():
    for page in (*DOCS.glob("*/*.md"), *DOCS.glob("notebooks/*.ipynb")):
        assert ".plot();" not in page.read_text("utf-8"), page
