"""Exit codes, one table of wrong arguments, and what is never shown."""

import subprocess
import sys
from pathlib import Path

import pytest

WRONG = {
    "calibrate nothing.csv": ("nothing.csv", "--promise", "--alpha"),
    "calibrate log.csv --alpha 0.1 --promise 0.2": ("--promise", "--alpha"),
    "calibrate gauss.csv": ("--promise", "--alpha", "--loss", "--context", "harm, log_safe"),
    "calibrate gauss.csv --alpha 0.1 --loss harms --log-safe x": ("harms", "'x'", "--context"),
    "calibrate log.csv --alpha 10%": ("--alpha", "10%"),
    "calibrate log.csv --alpha a=0.1 --alpha b": ("--alpha", "'b'"),
    "calibrate log.csv --alpha 0.1 --context loss": ("--context", "loss"),
    "calibrate log.csv --alpha 0.1 --context place --no-context": ("--no-context",),
    "calibrate log.csv --alpha 0.1 --missing drop": ("--missing", "drop"),
    "calibrate log.csv --alpha 0.1 --min-propensity 0.1 --max-ratio 9": ("--max-ratio",),
    "calibrate log.csv --alpha 0.1 --propensity sold": ("sold", "probability"),
    "calibrate log.csv --alpha 0.1 --out log.csv --force": ("log.csv",),
    "calibrate log.txt --alpha 0.1": ("log.txt", ".parquet"),
    "calibrate broken.parquet --alpha 0.1": ("broken.parquet",),
    "plan": ("--promise", "--safe-risk"),
    "threshold claims.csv": ("--score", "--label", "--item"),
    "filter new.csv": ("--threshold", "--score", "--out"),
    "decide gauss.csv": ("--promise", "--new", "--action", "--loss"),
    "threshold claims.csv --score s --label l --item i": ("'s'", "'l'", "'i'", "--promise"),
    "threshold claims.csv --score true --label true --item item --alpha 0.1": ("--label",),
    "filter new.csv --threshold no.json --score score --out kept.csv": ("no.json",),
    "status no.db": ("no.db",),
    "status saved.json": ("saved.json",),
    "verify nothing.json": ("nothing.json",),
    "verify found.db --log log.csv": ("--log",),
    "release plan --guardrail complaint=low": ("--guardrail", "low"),
    "release plan --guardrail complaint=0.05": ("--old-risk", "complaint"),
    "record gateway.toml log.csv": ("--prompt", "--answer"),
    "release start r.db --guardrail complaint=0.05 --old log.csv": ("--old", "complaint"),
    "release start r.db --guardrail a=0.1 --old log.csv --old-risk a=0.1": ("--old-risk",),
    "release start r.db --guardrail complaint=0.05 --step 3y": ("--step", "3y"),
    "release start r.db --guardrail complaint=2": ("tolerated", "2"),
    "release observe r.db --system both": ("--file", "--system"),
    "serve nothing.toml": ("nothing.toml",),
    "preflight no.txt --safe a --optimized b --base-url http://x/v1": ("no.txt", "--tokenizer"),
}
"""Commands that are wrong, and what the one line about each names."""


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments_are_one_line_that_names_all_of_them(tether, words):
    Path("broken.parquet").write_bytes(b"not one")
    Path("log.txt").write_text("a,b\n")
    Path("saved.json").write_text('{"kind": "calibration"}')
    Path("found.db").write_bytes(b"SQLite format 3\x00")
    result = tether(words)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not result.stdout
    for word in WRONG[words]:
        assert word in result.stderr


def test_exit_codes_of_options_an_interrupt_and_a_reader_that_has_seen_enough(tether, monkeypatch):
    assert tether("--version").exit_code == 0
    assert tether("calibrate --no-such-option").exit_code == 2

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tether.calibrate", interrupted)
    assert tether("calibrate log.csv --alpha 0.2").exit_code == 130
    command = f"{sys.executable} -m tether calibrate log.csv --alpha 0.2"
    left = subprocess.run(
        ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"], capture_output=True
    )
    assert left.returncode in (0, 141)
    assert not left.stderr


def test_no_password_or_control_character_is_shown_and_what_is_logged_if_asked(tether):
    result = tether(["status", "postgresql://ann:sec@ret@localhost/x"])
    assert result.exit_code == 2
    assert "ret" not in result.stderr.replace("refused", "").replace("interpret", "")
    result = tether(["calibrate", "log.csv", "--alpha", "0.1", "--loss", "a\x1b[31mb"])
    assert "\x1b" not in result.output
    assert "calibrated on 600 rows" in tether("-v calibrate log.csv --alpha 0.2").stderr
