"""What the commands print, from beginning to end, in files that one command updates."""

import numpy as np
import pytest

import tether as package

TRANSCRIPTS = {
    "calibrate": (
        "calibrate log.csv --alpha 0.2 --reward sold --out found.json",
        "calibrate log.csv --promise 0.2 --context place --details",
        "calibrate log.csv --alpha 0.2 --confidence 0.9",
        "calibrate gauss.csv --loss harm --no-context --alpha 0.2",
        "calibrate two.csv --loss harm --loss cost --no-context --alpha harm=0.2 --alpha cost=1.2 "
        "--bound harm=1 --bound cost=2",
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
        "release plan --guardrail complaint=0.05 --old-risk complaint=0.02",
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
        "export r.db copy.db",
        "import copy.db again.db",
        "verify copy.db",
        "verify again.db",
    ),
    "signed": (
        "keygen mine",
        "keygen other",
        "release start s.db --guardrail complaint=+0.01 --signing-key mine.key",
        "release assign s.db a",
        "release assign s.db a --signing-key mine.key",
        "halt s.db --reason maintenance --actor ann",
        "halt s.db --reason maintenance --actor ann --signing-key mine.key",
        "verify s.db --key mine.pub",
        "verify s.db --key other.pub",
        "status s.db",
    ),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_is_printed(transcript, name):
    if name in ("release", "signed"):
        pytest.importorskip("sqlalchemy", reason="needs tether[runs]")
    if name == "signed":
        pytest.importorskip("cryptography", reason="needs tether[signing]")
    transcript(name, *TRANSCRIPTS[name])


def test_what_is_printed_of_rounds(transcript):
    pytest.importorskip("sqlalchemy", reason="needs tether[runs]")
    from tether.runs import Controller

    rng = np.random.default_rng(0)
    with Controller(package.Gaussian(0.0), promise=0.1, store="run.db") as run:
        for policy in (None, package.Gaussian(0.5)):
            taken = run.begin(policy, name=policy and "bolder").act(400, rng)
            run.observe(taken.ids, 1.0 * (taken.actions > 2.0))
        run.round.act(10, rng)
    acts = ("halt run.db --reason maintenance --actor ann", "status run.db")
    copies = ("verify run.db", "export run.db copy.db", "import copy.db other.db")
    retire = ("retire run.db 1 --reason lost --actor ann", "retire run.db 2 --reason lost")
    transcript("run", "status run.db", *acts, "resume run.db --reason done", *retire, *copies)
