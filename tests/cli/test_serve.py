"""`tether serve`: what it refuses; tests/service/test_web_server.py lets it run."""

from tests.cli.command_line import one_line, run


def test_errors_name_the_setting(tmp_path):
    file = tmp_path / "serve.toml"
    for text, message in (
        ('[release]\nstore = "a.db"\n[listen]\nport = -1', "listen.port must be an integer"),
        ('[release]\nstore = "a.db"', "a.db: name release.guardrails to create one"),
        ('[release]\nstore = "b.db"\nguardrails = { harm = 2 }', "guardrails['harm']"),
    ):
        file.write_text(text)
        done = run("serve", file)
        assert done.exit_code == 2
        assert message in one_line(done)
    done = run("serve", tmp_path / "none.toml")
    assert done.exit_code == 2
    assert "there is no settings file" in one_line(done)
    assert "Errno" not in one_line(done)
