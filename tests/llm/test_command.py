"""`tether preflight` from the command line, on models saved in folders and on a server."""

import json

import pytest

pytest.importorskip("typer", reason="needs tether[cli]")
pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import typer
from typer.testing import CliRunner

from tests.llm import tiny
from tests.llm.loopback import Loopback
from tether.llm.command import preflight

app = typer.Typer()
app.command()(preflight)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    model = tiny.llama(scale=0.3)
    model.save_pretrained(folder / "safe")
    tiny.tokenizer().save_pretrained(folder / "safe")
    tiny.llama(scale=0.3, seed=1).save_pretrained(folder / "other")
    tuned = tiny.with_adapters(model, "optimized")
    tuned.save_pretrained(str(folder / "lora"))
    (folder / "prompts.txt").write_text("cat\nwhat is it\n\nabc\n")
    return folder


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def asked(folders, optimized, *more):
    options = ("--safe", folders / "safe", "--optimized", optimized, "--max-new-tokens", 4)
    return run(folders / "prompts.txt", *options, "--draws", 6, *more)


def test_a_model_and_its_adapter(folders, tmp_path):
    done = asked(folders, folders / "lora" / "optimized", "--out", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    assert "preflight on 3 prompt(s), 6 draws" in done.output
    assert json.loads((tmp_path / "found.json").read_text())["kind"] == "preflight"


def test_two_models_as_json(folders):
    done = asked(folders, folders / "other", "--json", "--eos", 0, "--seed", 3)
    found = json.loads(done.stdout)
    assert done.exit_code == (0 if found["passed"] else 3)
    assert {check["status"] for check in found["checks"]} <= {"pass", "warn", "fail"}


def test_a_check_that_fails_has_its_exit_code(folders, monkeypatch):
    from tether.llm import causal

    score = causal.CausalPolicy.log_prob
    monkeypatch.setattr(causal.CausalPolicy, "log_prob", lambda *a: score(*a) - 2)
    assert asked(folders, folders / "other").exit_code == 3


def test_models_on_a_server(folders, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-0123")
    (folders / "one.txt").write_text("cat\n")
    with Loopback({"base": tiny.llama(scale=0.3), "lora": tiny.llama(scale=0.3)}) as server:
        done = run(
            folders / "one.txt", "--base-url", server.url, "--safe", "base",
            "--optimized", "lora", "--tokenizer", folders / "safe", "--max-new-tokens", 2,
            "--draws", 3, "--key-variable", "MY_KEY",
        )  # fmt: skip
        assert server.headers[0]["Authorization"] == "Bearer sk-0123"
    assert done.exit_code == 0, done.output
    assert "sk-0123" not in done.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nothing.txt",), "there is no file nothing.txt"),
        (("--safe", "nowhere"), "--safe must be a folder"),
        (("--base-url", "http://127.0.0.1:1/v1"), "--tokenizer is needed"),
        (("--temperature", "0"), "temperature must be above 0"),
    ],
)
def test_bad_input_is_one_line(folders, change, message):
    prompts = folders / "prompts.txt"
    if change[0] == "nothing.txt":
        prompts, change = change[0], ()
    done = run(prompts, "--safe", folders / "safe", "--optimized", folders / "other", *change)
    assert done.exit_code == 2
    assert message in done.output
