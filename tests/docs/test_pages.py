"""What the README and the pages show works as it is written, and their links lead somewhere.

The examples of a page run with what its install line names and nothing else: here every other
package is hidden, and `make nightly` installs the line into an environment of its own.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tether

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
GENERATED = {"experiments", "gallery", "reference"}
"""Folders whose pages are written when the site is built."""
EXAMPLE = re.compile(r"```(?:python|\{code-cell\} python)\n(?::[^\n]*\n)*(.*?)```", re.S)
"""A block of Python that a page shows, or runs when the site is built, without its options."""


def read(page):
    return page.read_text(encoding="utf-8")


RUNNER = """
import json, sys, warnings

hidden, examples = json.load(sys.stdin)


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is not in the install line of this page", name=name)


sys.meta_path.insert(0, Hidden())
import tether

warnings.simplefilter("error", tether.TetherWarning)
names = {}  # a page is read from top to bottom
for example in examples:
    exec(compile(example, "page", "exec"), names)
"""
WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(read(page))]


def install_line(text):
    """The extras of tether and the other packages that a page says to install."""
    extras, packages = set(re.findall(r"extra `(\w+)`", text)), set()
    for line in re.findall(r"pip install ([^`\n]+)", text):
        for part in shlex.split(line):
            extras |= {each for each in part.partition("[")[2].rstrip("]").split(",") if each}
            packages |= set() if part.startswith(".") else {part}
    return extras, packages


def required(name, extras, seen):
    """Every distribution that an installation of one brings."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if (name, *extras) in seen:
        return
    seen.add((name, *extras))
    for text in metadata.requires(name) or []:
        each = Requirement(text)
        if not each.marker or any(each.marker.evaluate({"extra": one}) for one in ("", *extras)):
            required(each.name, sorted(each.extras), seen)


def run_examples(python, page, hidden, folder):
    examples = [each[1] for each in EXAMPLE.finditer(read(page))]
    given = json.dumps([sorted(hidden), examples])
    command = [python, "-c", RUNNER]
    done = subprocess.run(command, input=given, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_with_what_it_says_to_install(page, tmp_path):
    extras, packages = install_line(read(page))
    seen = set()
    for name in ("tether", *packages):
        required(name, sorted(extras) if name == "tether" else [], seen)
    brought = {name for name, *_ in seen}
    hidden = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not brought & {re.sub(r"[-_.]+", "-", each).lower() for each in owners}
    }
    run_examples(sys.executable, page, hidden, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_the_install_line_of_a_page_is_enough_in_a_bare_environment(page, tmp_path):
    extras, packages = install_line(read(page))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    own = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
    command = [python, "-m", "pip", "install", "--quiet", own, *sorted(packages)]
    subprocess.run(command, check=True)
    run_examples(python, page, [], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target, section in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", read(page)):
        if "://" in target:
            continue
        place = page.parent / target if target else page
        parts = set(place.resolve().relative_to(ROOT).parts)
        assert place.exists() or GENERATED & parts, target
        if section and place.suffix == ".md" and place.exists():
            assert section in sections(place), f"{target}#{section}"


def sections(page):
    """The anchors of the headings of a page, as MyST and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", read(page), re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert f"version: {tether.__version__}" in read(ROOT / "CITATION.cff")
    assert re.search(r"^## (\S+)", read(ROOT / "CHANGELOG.md"), re.M)[1] == tether.__version__
