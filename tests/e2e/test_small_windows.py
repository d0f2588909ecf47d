"""Windows of 4,000, 8,000 and 16,000 tokens with outputs of all kinds, counted by a real tokenizer (o200k)."""

import random

import pytest

from tests.e2e.bodies import faults, read_body
from tests.e2e.program import TASK, WIRES, Tinyagent, proven
from tests.e2e.scripts import SUMMARY, bash, read
from tests.fake_provider import FakeProvider, Scripted
from tests.generators import KINDS, text


def outputs(tinyagent: Tinyagent) -> list[Scripted]:
    """A script that looks at texts of every kind, at a line of 2 MB and at random bytes, and answers."""
    rng = random.Random(4)
    script: list[Scripted] = []
    for number, kind in enumerate(KINDS):
        name = kind.replace(" ", "_")
        tinyagent.file(f"{name}.txt", text(kind, rng.choice((1_500, 6_000, 20_000)), number))
        said = text("prose", rng.choice((0, 60, 800)), number)
        script.append(bash(f"cat {name}.txt", said=said) if number % 2 else read(f"{name}.txt", said))
    tinyagent.file("line.txt", "a long line, " * 160_000)
    tinyagent.file("bytes.bin", rng.randbytes(6_000))
    script += [bash("cat line.txt", "cat bytes.bin", "ls"), bash("cat bytes.bin; exit 3"), read("line.txt")]
    rng.shuffle(script)
    return [*script, *script[:4], "Done."]


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
def test_every_request_fits_is_legal_and_has_the_task(tinyagent: Tinyagent, window: int, api: str) -> None:
    """RooCode#4186, openclaw#103930: one giant result, CJK, base64."""
    with FakeProvider(outputs(tinyagent), window=window, summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", str(window), api=api)
    assert (done.code, done.reason) == (0, "submitted")
    for recorded in server.requests:
        body = read_body(recorded.body, api)
        assert recorded.tokens + (body.max_output_tokens or 0) <= window
        assert faults(body) == []
        assert TASK in body.user_text
    assert all(entry["reason"] == "budget" for entry in done.passes)
    assert len(done.passes) >= (1 if window == 16_000 else 2)
    assert max(recorded.tokens for recorded in server.requests) > 0.6 * window  # the window is used, too
    proven(done, server)
