"""A key goes into the request's header and nowhere else: no file, no stream, no child's environment, no prompt."""

import stat
from collections.abc import Callable

import pytest

from tests.e2e.program import KEY, WIRES, Done, Tinyagent, proven
from tests.e2e.scripts import bash, read
from tests.fake_provider import FakeProvider, Scripted
from tests.faults import Fault, error

OWN = "own-secret-0123456789-abcdefghijklmnop"  # in no form that a pattern would know
every_wire = pytest.mark.parametrize("api", WIRES)


def sinks(tinyagent: Tinyagent, done: Done, server: FakeProvider) -> dict[str, str]:
    """All that a run leaves or sends, headers aside."""
    files = [path for path in tinyagent.root.rglob("*") if path.is_file() and tinyagent.workspace not in path.parents]
    found = {str(path): path.read_bytes().decode("utf-8", "replace") for path in files}
    bodies = "".join(recorded.raw.decode() for recorded in server.requests)
    return found | {"stdout": done.stdout, "stderr": done.stderr, "what the model was sent": bodies}


def leaks(secret: str, tinyagent: Tinyagent, done: Done, server: FakeProvider) -> list[str]:
    return [name for name, text in sinks(tinyagent, done, server).items() if secret in text]


@every_wire
@pytest.mark.parametrize("custom", [False, True])
def test_commands_that_look_for_the_key_find_nothing(tinyagent: Tinyagent, custom: bool, api: str) -> None:
    """S40 pi#7522, minimax-code#153, OpenHands SDK#4801; S41 DeepSeek-Reasonix#6178."""
    key, environ = (OWN, {"MY_OWN_KEY": OWN}) if custom else (KEY, {})
    tinyagent.file(".env", f"THE_KEY={key}\n")
    tinyagent.file("notes.txt", f"the key is {key}, do not tell\n")
    script: list[Scripted] = [
        bash(
            "env", "cat .env", f"yes '{'x' * 60}' | head -n 3000; cat notes.txt; yes y | head -n 60000; cat notes.txt"
        ),
        read("notes.txt"),
        bash("tr '\\0' '\\n' < /proc/$PPID/environ; python3 -c 'import os; print(sorted(os.environ))'"),
        "Done.",
    ]
    options = ("-s", "api_key_env=MY_OWN_KEY") if custom else ()
    with FakeProvider(script) as server:
        done = tinyagent.run(server, *options, "--output-format", "stream-json", "-v", api=api, environ=environ)
    assert done.code == 0
    sent = {recorded.headers.get("authorization") or recorded.headers["x-api-key"] for recorded in server.requests}
    assert {header.removeprefix("Bearer ") for header in sent} == {key}
    outputs = [m["content"] for m in done.trajectory["messages"] if m["role"] == "tool"]
    assert "API_KEY" not in outputs[0]
    assert "MY_OWN_KEY" not in outputs[0]
    assert "do not tell" in outputs[3]
    proven(done, server)
    assert leaks(key, tinyagent, done, server) == []


ECHOES: dict[str, Callable[[str], Fault]] = {
    "a refusal": lambda key: error(
        401, f"Incorrect API key provided: {key}. You sent: Bearer {key}", "invalid_api_key"
    ),
    "an unknown refusal": lambda key: error(418, f"No. authorization={key}", "teapot"),
    "no answer": lambda key: Fault(
        500, body=f"<html>Bad gateway. x-api-key: {key}</html>", headers={"retry-after": "999"}
    ),
    "in the stream": lambda key: Fault(
        body=f'event: error\ndata: {{"type": "error", "error": {{"type": "api_error", "message": "bad {key}"}}}}\n\n',
        content_type="text/event-stream",
    ),
}


@every_wire
@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("name", ECHOES)
def test_an_error_that_echoes_the_key_is_masked(tinyagent: Tinyagent, name: str, custom: bool, api: str) -> None:
    """S43: keys in error texts."""
    key, environ = (OWN, {"MY_OWN_KEY": OWN}) if custom else (KEY, {})
    options = ("-s", "api_key_env=MY_OWN_KEY") if custom else ()
    with FakeProvider(["x"], faults={"all": ECHOES[name](key)}) as server:
        done = tinyagent.run(
            server, *options, "--time-limit", "2", "--output-format", "json", "-v", api=api, environ=environ
        )
    assert done.code in (1, 75, 77)
    assert leaks(key, tinyagent, done, server) == []


@every_wire
@pytest.mark.parametrize("answers", [True, False])
def test_a_password_in_the_base_url_is_shown_nowhere(tinyagent: Tinyagent, answers: bool, api: str) -> None:
    """S43 proxies."""
    with FakeProvider([bash("env"), "Done."], faults={} if answers else {"all": "no_such_model"}) as server:
        url = server.base_url(api).replace("//", "//someone:passw0rd-of-the-proxy@")
        done = tinyagent.run(server, "--base-url", url, "--output-format", "stream-json", "-v", api=api)
        shown = tinyagent.command("config", "-s", f"base_url={url}")[1]
        checked = "".join(tinyagent.command("doctor", "-m", "openai/fake", "--base-url", url)[1:])
    assert (done.code, len(server.requests) > 0) == (0 if answers else 1, True)
    assert leaks("passw0rd-of-the-proxy", tinyagent, done, server) == []
    assert "passw0rd-of-the-proxy" not in shown + checked


def test_an_address_that_does_not_answer_is_named_without_its_password(tinyagent: Tinyagent) -> None:
    with FakeProvider() as server:
        url = server.base_url("openai").replace("//", "//someone:passw0rd-of-the-proxy@")
    done = tinyagent.run(None, "-m", "openai/fake", "--base-url", url, "--time-limit", "0.5")
    assert done.code == 75
    assert "127.0.0.1" in done.stderr
    assert leaks("passw0rd-of-the-proxy", tinyagent, done, server) == []


def test_what_a_run_leaves_is_for_the_user_alone(tinyagent: Tinyagent) -> None:
    big = bash("seq 1 40000")
    with FakeProvider([big, "Done."]) as server:
        done = tinyagent.run(server)
    assert done.folder is not None
    left = [done.folder, *done.folder.rglob("*")]
    assert len([path for path in left if "outputs" in path.parts and path.is_file()]) == 1
    assert [path for path in left if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_headers_of_a_provider_of_ones_own_are_sent_and_not_recorded(tinyagent: Tinyagent) -> None:
    with FakeProvider(["Done."]) as server:
        (tinyagent.home / "config.yaml").write_text(
            f"providers:\n  mine:\n    base_url: {server.base_url('openai')}\n    local: true\n"
            f"    api_key_env: MY_OWN_KEY\n    headers: {{X-Team: {OWN[::-1]}}}\n"
        )
        done = tinyagent.run(
            None, "-m", "mine/fake", "--context-window", "9000", priced=False, environ={"MY_OWN_KEY": OWN}
        )
    (recorded,) = server.requests
    assert (done.code, recorded.headers["x-team"], recorded.headers["authorization"]) == (0, OWN[::-1], f"Bearer {OWN}")
    (tinyagent.home / "config.yaml").unlink()
    assert leaks(OWN, tinyagent, done, server) + leaks(OWN[::-1], tinyagent, done, server) == []
