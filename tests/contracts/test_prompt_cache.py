"""What providers need to read most of a prompt from their cache, and what that costs."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import request
from tests.e2e.program import Done, Tinyagent
from tests.e2e.scripts import SUMMARY, files
from tests.fake_provider import FakeProvider, Recorded, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault
from tinyagent.config import Settings
from tinyagent.core.events import Compacted, ModelCalled
from tinyagent.core.pricing import cost
from tinyagent.endpoint import find_target
from tinyagent.models.catalogue import lookup
from tinyagent.models.wires import encode

Json = dict[str, Any]
APIS = ("anthropic", "openai", "responses", "ollama")
every_wire = pytest.mark.parametrize("api", APIS)
MARK = b',"cache_control":{"type":"ephemeral"}'
LOOK_BACK = 20  # blocks that Anthropic looks back from a mark (its documentation, November 2026)


@pytest.fixture
def tinyagent(tmp_path: Path) -> Tinyagent:
    return Tinyagent(tmp_path)


def sixty_steps(tinyagent: Tinyagent, *, calls: int = 1) -> list[Scripted]:
    """Steps that read a file of 1,500 characters each, every tenth as many files as `calls` says."""
    names = iter(files(tinyagent, 60 + 6 * (calls - 1), chars=1_500))
    numbers = [calls if n % 10 == 5 else 1 for n in range(60)]
    steps = [tuple(Call("read", {"path": next(names)}) for _ in range(number)) for number in numbers]
    return [*(Say("I read on.", step, reasoning="Hm.") for step in steps), "Done."]


def neighbours(done: Done, server: FakeProvider) -> Iterator[tuple[Recorded, Recorded]]:
    """Requests one after the other, without a pass between them."""
    sent, before = iter(server.requests), None
    for record in done.records:
        match record.event:
            case Compacted():
                before = None
            case ModelCalled(purpose="summary"):
                next(sent)
            case ModelCalled():
                after = next(sent)
                if before is not None:
                    yield before, after
                before = after
            case _:
                pass


@every_wire
def test_between_passes_a_request_begins_with_all_of_the_one_before_byte_for_byte(
    tinyagent: Tinyagent, api: str
) -> None:
    with FakeProvider(sixty_steps(tinyagent), summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "16000", api=api)
    assert done.reason == "submitted"
    pairs = list(neighbours(done, server))
    assert len(done.passes) > 1
    assert len(pairs) > 40
    for before, after in pairs:
        assert without_marks(after.raw).startswith(up_to_last_message(without_marks(before.raw), api))
        assert fixed(after.body) == fixed(before.body)


def without_marks(raw: bytes) -> bytes:
    """Marks are advice about the cache and no part of what is cached."""
    return raw.replace(MARK, b"")


def up_to_last_message(raw: bytes, api: str) -> bytes:
    """The body up to the end of its last message."""
    name = b'"input":[' if api == "responses" else b'"messages":['
    start = raw.index(name) + len(name) - 1
    _, end = json.JSONDecoder().raw_decode(raw[start:].decode())
    return raw[: start + len(raw[start:].decode()[: end - 1].encode())]


def fixed(body: Json) -> Json:
    """All of a request but its messages and the cap on the reply."""
    left_out = ("messages", "input", "max_tokens", "max_output_tokens", "max_completion_tokens", "options")
    return {key: value for key, value in body.items() if key not in left_out}


class AnthropicCache:
    """Anthropic's cache as documented: a mark stores the prefix that ends at it, and finds one up to 20 blocks back."""

    def __init__(self) -> None:
        self._stored: set[tuple[str, ...]] = set()

    def read(self, body: Json) -> tuple[int, int]:
        """Blocks of the request that are read, and how many it has; stores what it marks."""
        blocks, marks = self._blocks(body)
        assert len(marks) <= 4
        ends = {end for mark in marks for end in range(max(0, mark - LOOK_BACK), mark + 1)}
        found = max((end for end in ends if tuple(blocks[:end]) in self._stored), default=0)
        self._stored |= {tuple(blocks[:mark]) for mark in marks}
        return found, len(blocks)

    def _blocks(self, body: Json) -> tuple[list[str], list[int]]:
        named = [("tools", tool) for tool in body["tools"]] + [("system", block) for block in body["system"]]
        named += [(message["role"], block) for message in body["messages"] for block in message["content"]]
        bare = [json.dumps([role, {k: v for k, v in b.items() if k != "cache_control"}]) for role, b in named]
        return bare, [n for n, (_, block) in enumerate(named, 1) if "cache_control" in block]


def test_all_of_the_request_before_is_found_in_anthropics_cache_also_after_thirty_calls_at_once(
    tinyagent: Tinyagent,
) -> None:
    with FakeProvider(sixty_steps(tinyagent, calls=30), summaries=[SUMMARY]) as server:
        done = tinyagent.run(server, "--context-window", "200000", "--cost-limit", "0", api="anthropic")
    assert (done.reason, done.passes) == ("submitted", [])
    cache, earlier = AnthropicCache(), 0
    for body in server.bodies:
        found, blocks = cache.read(body)
        assert found == earlier
        earlier = blocks
    assert max(len(message["content"]) for message in server.bodies[-1]["messages"]) > 30


@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"])
def test_openai_itself_gets_one_cache_key_for_the_whole_run_and_no_other_server_any(
    tmp_path: Path, base_url: str | None
) -> None:
    settings = Settings(model="openai/gpt-6-sol", base_url=base_url, context_window=100_000, cost_limit=0)
    target = find_target(settings, {"OPENAI_API_KEY": "k"}, cache=tmp_path, cache_key="run-1")
    assert target.options.cache_key == ("" if base_url else "run-1")
    assert (b"prompt_cache_key" in encode(request(), target.options.to_json())) == (base_url is None)


@pytest.mark.parametrize(
    ("model", "api"),
    [
        ("anthropic/claude-sonnet-5-5", "anthropic"),
        ("anthropic/claude-opus-4-6", "anthropic"),
        ("openai/gpt-5.6", "openai"),
        ("openai/gpt-6.1-sol", "responses"),
    ],
)
def test_cache_reads_and_writes_are_charged_at_the_models_own_prices(
    tinyagent: Tinyagent, model: str, api: str
) -> None:
    script = [Say("", (Call("bash", {"command": "echo one"}),)), "Done."]
    reported = Fault(count=lambda count: replace(count, cached=count.prompt // 2, written=count.prompt // 4))
    with FakeProvider(script, faults={"all": reported}) as server:
        done = tinyagent.run(server, model=model, api=api, priced=False)
    row = lookup(model)
    assert row is not None
    prices = row.prices
    assert prices is not None
    assert prices.cache_read_usd_per_mtok is not None
    assert prices.cache_write_usd_per_mtok is not None
    for call, sent in zip(done.events(ModelCalled), server.requests, strict=True):
        assert call.usage is not None
        read, written = sent.tokens // 2, sent.tokens // 4
        assert (call.usage.cache_read_tokens, call.usage.cache_write_tokens) == (read, written)
        paid = (
            (sent.tokens - read - written) * prices.input_usd_per_mtok
            + read * prices.cache_read_usd_per_mtok
            + written * prices.cache_write_usd_per_mtok
            + call.usage.output_tokens * prices.output_usd_per_mtok
        ) / 1_000_000
        assert call.cost_usd == pytest.approx(paid)
        uncached = cost(replace(call.usage, cache_read_tokens=0), prices)
        assert uncached is not None
        assert call.cost_usd is not None
        assert call.cost_usd < uncached
