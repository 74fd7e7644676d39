"""`tether preflight` from the command line, on models saved in folders and on a server."""

import json

import pytest

pytest.importorskip("typer", reason="needs tether[cli]")
pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
from tokenizers import processors

from tests.cli import command_line
from tests.llm import tiny_models as tiny
from tests.llm.loopback_server import Loopback


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    model = tiny.llama(scale=0.3)
    model.save_pretrained(folder / "safe")
    tiny.tokenizer().save_pretrained(folder / "safe")
    tiny.llama(scale=0.3, seed=1).save_pretrained(folder / "other")
    tuned = tiny.with_adapters(model, "optimized")
    tuned.save_pretrained(str(folder / "lora"))
    for name, layers, heads in (("deeper", 3, 2), ("shallower", 1, 2), ("wider", 2, 4)):
        other = tiny.with_adapters(tiny.llama(layers=layers, heads=heads), "optimized")
        other.save_pretrained(str(folder / name))
    (folder / "prompts.txt").write_text("cat\nwhat is it\n\nabc\n")
    return folder


def run(*words):
    return command_line.run("preflight", *words)


def checked(folders, optimized, *more):
    options = ("--safe", folders / "safe", "--optimized", optimized, "--max-new-tokens", 4)
    return run(folders / "prompts.txt", *options, "--draws", 6, *more)


@pytest.mark.slow
def test_a_model_and_its_adapter(folders, tmp_path):
    done = checked(folders, folders / "lora" / "optimized", "--out", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    assert "preflight on 3 prompt(s), 6 draws" in done.output
    content = json.loads((tmp_path / "found.json").read_text())
    assert content["kind"] == "preflight"
    apart = {check["name"]: check["value"] for check in content["checks"] if "KL" in check["name"]}
    assert len(apart) == 2
    assert min(apart.values()) > 0.01  # without the adapter the two are one, and this is zero


@pytest.mark.slow
def test_the_seed_is_that_of_all_draws(folders):
    def values(seed):
        content = json.loads(checked(folders, folders / "other", "--json", "--seed", seed).stdout)
        return [check["value"] for check in content["checks"]]

    assert values(3) == values(3)
    assert values(3) != values(4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("deeper", "which has no layer for 4 of its weights, such as base_model"),
        ("shallower", "Found missing adapter keys"),
        ("wider", "size mismatch"),
    ],
)
def test_an_adapter_of_another_model_is_refused(folders, name, message):
    done = checked(folders, folders / name / "optimized")
    assert done.exit_code == 2
    assert message in done.stderr.splitlines()[-1]


def test_special_tokens_of_the_tokenizer(folders, tmp_path):
    tokenizer = tiny.tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "prompts.txt").write_text("ab\n")
    with Loopback({"base": tiny.llama(scale=0.3)}) as server:
        done = run(
            tmp_path / "prompts.txt", "--base-url", server.url, "--safe", "base",
            "--optimized", "base", "--tokenizer", tmp_path / "tokenizer", "--max-new-tokens", 2,
            "--draws", 3, "--add-special-tokens",
        )  # fmt: skip
    assert server.requests[1]["prompt"] == [1, 2, 3]  # after the fixed rows
    assert done.exit_code == 0, done.output


def test_each_model_may_have_a_server_of_its_own(folders):
    models = {"base": tiny.llama(scale=0.3)}, {"tuned": tiny.llama(scale=0.3)}
    with Loopback(models[0]) as first, Loopback(models[1]) as second:
        done = run(
            folders / "prompts.txt", "--base-url", first.url, "--safe", "base",
            "--optimized-url", second.url, "--optimized", "tuned",
            "--tokenizer", folders / "safe", "--max-new-tokens", 2, "--draws", 3,
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert {each["model"] for each in first.requests} == {"base"}
    assert {each["model"] for each in second.requests} == {"tuned"}


@pytest.mark.parametrize("answered", [0, 9])
def test_an_unavailable_server_is_one_line(folders, answered, monkeypatch):
    """From the first request on, or after the draws of the safe policy, while it scores."""
    monkeypatch.setattr("tether.llm.server.http_client.MAX_RETRY_WAIT", 0.0)
    with Loopback({"base": tiny.llama(scale=0.3)}) as server:
        server.faults = [None] * answered + ["drop"] * 200
        done = run(
            folders / "prompts.txt", "--base-url", server.url, "--safe", "base",
            "--optimized", "base", "--tokenizer", folders / "safe", "--max-new-tokens", 2,
            "--draws", 3, "--retries", 3,
        )  # fmt: skip
    assert done.exit_code == 2
    assert "/v1/completions failed 4 time(s), at last with" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_two_models_as_json(folders):
    done = checked(folders, folders / "other", "--json", "--eos", 0, "--seed", 3)
    content = json.loads(done.stdout)
    assert done.exit_code == (0 if content["passed"] else 3)
    assert {check["status"] for check in content["checks"]} <= {"pass", "warn", "fail"}


def test_a_check_that_fails_has_its_exit_code(folders, monkeypatch):
    from tether.llm.local import causal_policy

    score = causal_policy.CausalPolicy.log_prob
    monkeypatch.setattr(causal_policy.CausalPolicy, "log_prob", lambda *a: score(*a) - 2)
    assert checked(folders, folders / "other").exit_code == 3


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
        (("--base-url", "http://127.0.0.1:1/v1"), "--tokenizer is required"),
        (("--optimized-url", "http://127.0.0.1:1/v1"), "name the other with --base-url"),
        (
            ("--tokenizer", "nowhere"),
            "--tokenizer must be a folder, but 'nowhere' does not exist",
        ),
        (
            ("--base-url", "http://127.0.0.1:1/v1", "--tokenizer", "nowhere"),
            "--tokenizer must be a folder, but 'nowhere' does not exist",
        ),
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
