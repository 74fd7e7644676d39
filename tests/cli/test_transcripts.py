"""What the commands print, from beginning to end, in files that one command updates."""

import numpy as np
import pytest

import tether as package
from tests.rounds.worlds import World, one_round

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
        "release plan --guardrail complaint=0.05",
        "release start r.db --guardrail complaint=0.05 --old old.csv",
        "release assign r.db a b c",
        "release observe r.db --key a --loss complaint=0",
        "release observe r.db --key x --loss complaint=1",
        "release observe r.db --key x --loss complaint=1 --skip-unknown",
        "release advance r.db",
        "release status r.db",
        "halt r.db --reason maintenance",
        "release resume r.db --reason done",
        "status r.db",
        "verify r.db",
        "keygen mine",
        "sign r.db --key mine.key",
        "export r.db r.parquet --key mine.key",
        "verify r.parquet --key mine.pub",
        "import r.parquet again.db",
        "backup r.db copy.db",
        "report r.db --out r.html",
    ),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_is_printed(transcript, name):
    if name == "release":
        pytest.importorskip("sqlalchemy", reason="needs tether[rounds]")
        pytest.importorskip("cryptography", reason="needs tether[signing]")
    transcript(name, *TRANSCRIPTS[name])


def test_what_is_printed_of_a_run(transcript):
    pytest.importorskip("sqlalchemy", reason="needs tether[rounds]")
    world, rng = World("marginal"), np.random.default_rng(0)
    with package.Controller(world.safe(), alpha=0.3, store="run.db") as made:
        for number in (1, 2):
            one_round(made, world, number, 150, rng)
        made.round.act(10, rng)
    commands = ("status run.db", "release status run.db", "retire run.db 2 --reason lost")
    acts = ("halt run.db --reason maintenance", "status run.db", "resume run.db --reason done")
    transcript("run", *commands, *acts, "verify run.db")
