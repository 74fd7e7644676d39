"""What the README and the documents show works as it is written."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```(?:python|\{code-cell\} python)\n(.*?)```", re.S)
"""A block of Python that a page shows, or runs when the site is built."""


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for page in [README, *README.parent.glob("docs/**/*.md")]:
        names = {}  # a page is read from top to bottom
        for example in EXAMPLE.findall(page.read_text("utf-8")):
            exec(compile(example, page.name, "exec"), names)
        if page == README:
            _check_the_ramp(names["release"].history())
    assert "family geometric" in capsys.readouterr().out
    assert (tmp_path / "found.json").exists()


def _check_the_ramp(release):
    """From two functions and a loss to the new system alone, through small shares."""
    shares = [step.share for step in release.steps]
    assert shares[0] == 0
    assert 0 < shares[1] < 0.1
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert all(step.calibration.promises["wrong"] < 0.2 for step in release.steps[1:])


def test_links_lead_somewhere():
    for page in [README, *README.parent.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
