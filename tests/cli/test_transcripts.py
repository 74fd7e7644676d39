"""What the commands print, from beginning to end, in files that one command updates."""

import pytest

TRANSCRIPTS = {
    "calibrate": (
        "calibrate log.csv --alpha 0.2 --reward sold --out found.json",
        "calibrate log.csv --promise 0.2 --context place --details",
        "calibrate log.csv --alpha 0.2 --confidence 0.9",
        "calibrate gauss.csv --loss harm --no-context --alpha 0.2",
        "calibrate few.csv --loss harm --no-context --alpha 0.1",
        "calibrate few.csv --loss harm --no-context --alpha 0.02",
        "verify found.json --log log.csv --reward sold",
        "verify found.json --log parts --reward sold",
        "verify found.json --log gauss.csv --loss harm --no-context",
    ),
    "plan": (
        "plan --alpha 0.1 --safe-risk 0.05",
        "plan --promise 0.1 --safe-risk 0.05 --rows 1000",
        "plan log.csv --alpha 0.15",
        "plan --alpha 0.1 --safe-risk 0.2",
    ),
    "threshold": (
        "threshold claims.csv --score score --label true --item item --alpha 0.1 --out a.json",
        "threshold claims.csv --score score --label true --item item --promise 0.1 --group kind",
        "threshold claims.csv --score score --label true --item item --alpha 0.1 --method all",
        "threshold claims.csv --score score --label true --item item --alpha 0.001",
        "filter new.csv --threshold a.json --score score --out kept.csv",
        "filter new.csv --threshold a.json --score score --item item --mark kept --out marked.csv",
    ),
    "release": (
        "release plan --guardrail complaint=0.05 --guardrail slow=+10%",
        "release plan --guardrail complaint=0.05 --old-risk complaint=0.05",
        "release start r.db --guardrail complaint=0.05 --old old.csv",
        "release start bad.db --guardrail complaint=0.01 --old old.csv",
        "release start first.db --guardrail complaint=0.05 --step 500",
        "release assign r.db a b c",
        "release observe r.db --key a --loss complaint=0",
        "release observe r.db --key x --loss complaint=1",
        "release advance r.db",
        "status r.db",
        "halt r.db --reason maintenance --actor ann",
        "release advance r.db",
        "resume r.db --reason done --actor ann",
        "tighten r.db complaint=0.04 --reason safer --actor ann",
        "status r.db",
        "verify r.db",
        "report r.db --out r.html",
        "report r.db --out r.html",
    ),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_is_printed(transcript, name):
    if name == "release":
        pytest.importorskip("sqlalchemy", reason="needs tether[rounds]")
    transcript(name, *TRANSCRIPTS[name])
