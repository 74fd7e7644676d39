"""What the README and the documents show works as it is written."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for page in [README, *README.parent.glob("docs/*.md")]:
        names = {}  # a page is read from top to bottom
        for example in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S):
            exec(compile(example, page.name, "exec"), names)
    assert "family geometric" in capsys.readouterr().out
    assert (tmp_path / "found.json").exists()


def test_links_lead_somewhere():
    for page in [README, *README.parent.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
