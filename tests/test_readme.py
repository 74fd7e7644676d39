"""What the README shows works as it is written."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S):
        exec(compile(example, "README.md", "exec"), {})
    assert "beta = " in capsys.readouterr().out
    assert (tmp_path / "found.json").exists()


def test_links_lead_somewhere():
    for page in [README, *README.parent.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
