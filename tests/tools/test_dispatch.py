"""One result per call, in order, whatever happens."""

import shutil
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyagent.core.errors import EndRun, SandboxLost
from tinyagent.core.types import Facts, Tool, ToolCall, ToolOutput, Verdict
from tinyagent.sandboxes.local import LocalSandbox
from tinyagent.tools.dispatch import Dispatch
from tinyagent.tools.store import FileOutputStore

KINDS = ("ok", "big", "huge", "crash", "denied", "bad schema", "unknown", "unreadable")
RUN = ("ok", "big", "huge", "crash")
SIZES = {"ok": 5, "big": 3_000, "huge": 50_000}


def probe(ran: list[str], **failures: BaseException) -> Tool:
    """A tool that notes what it ran and answers, or fails, as its argument says."""

    def run(arguments, context):
        kind = arguments["kind"]
        ran.append(kind)
        if kind in failures:
            raise failures[kind]
        if kind == "crash":
            raise RuntimeError("a fault of ours")
        return ToolOutput("x" * SIZES.get(kind, 5))

    parameters = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    return Tool("probe", "for tests", parameters, "read", run)


def call_of(number: int, kind: str) -> ToolCall:
    match kind:
        case "unreadable":
            return ToolCall(f"c{number}", "probe", None, problem="cut off at character 9", raw='{"kind": "')
        case "unknown":
            return ToolCall(f"c{number}", "prob", {"kind": kind})
        case "bad schema":
            return ToolCall(f"c{number}", "probe", {"kind": [5]})
        case _:
            return ToolCall(f"c{number}", "probe", {"kind": kind})


def calls_of(*kinds: str) -> list[ToolCall]:
    return [call_of(number, kind) for number, kind in enumerate(kinds)]


def not_denied(call: ToolCall, tool: Tool) -> Verdict:
    return Verdict(call.arguments != {"kind": "denied"}, "rule 1", "it is forbidden")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dispatch")
    with LocalSandbox(folder, env={}) as sandbox:
        yield sandbox, FileOutputStore(folder / "outputs")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(KINDS), max_size=12), st.integers(1_000, 40_000))
def test_each_call_has_exactly_one_result_in_order_within_the_budget(places, kinds, step_chars):
    """R47, R49: never run with repaired arguments, never a call without its result."""
    ran, crashes = [], []
    dispatch = Dispatch(
        [probe(ran)],
        *places,
        permit=not_denied,
        redact=str,
        on_crash=lambda call, trace: crashes.append((call.id, trace)),
    )
    calls = calls_of(*kinds)
    messages = dispatch.run(calls, step_chars=step_chars, remaining_s=None)
    assert [message.call_id for message in messages] == [call.id for call in calls]
    assert [message.is_error for message in messages] == [kind not in SIZES for kind in kinds]
    assert ran == [kind for kind in kinds if kind in RUN]
    assert len(crashes) == kinds.count("crash")
    assert sum(len(message.text) for message in messages) <= step_chars
    assert all(message.text for message in messages)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("unreadable", "The arguments of this call could not be read: cut off at character 9. Nothing was run."),
        ("unknown", "There is no tool `prob`. Did you mean `probe`?"),
        ("bad schema", "Nothing was run: `kind` must be a string, not a list"),
        ("denied", "Not permitted, nothing was run: it is forbidden"),
    ],
)
def test_a_call_that_is_not_run_is_told_why(room, kind, text):
    """R47 hermes-agent#35151, R56 claude-code 2.1.229."""
    (message,) = room.dispatch_of(probe([]), permit=not_denied).run(calls_of(kind), step_chars=9_000, remaining_s=None)
    assert message.text == text


def test_a_crash_inside_a_tool_is_an_error_result_and_a_traceback(room):
    dispatch = room.dispatch_of(probe([], bad=ValueError("with hunter2 in it")))
    (message,) = dispatch.run(calls_of("bad"), step_chars=9_000, remaining_s=None)
    assert "ValueError: with [secret] in it" in message.text
    assert "Traceback" in room.crashes[0]


@pytest.mark.parametrize("error", [SandboxLost("gone"), EndRun("cost_limit"), KeyboardInterrupt(), SystemExit(143)])
def test_what_ends_the_run_goes_through_and_keeps_the_results_so_far(room, error):
    """R22, R23: termination is not swallowed; the caller answers the calls that are left open."""
    dispatch = room.dispatch_of(probe([], end=error))
    with pytest.raises(type(error)):
        dispatch.run(calls_of("ok", "big", "end", "ok"), step_chars=9_000, remaining_s=None)
    assert [message.call_id for message in dispatch.finished] == ["c0", "c1"]


def test_a_failing_permission_check_never_lets_the_call_run(room):
    """S14: a failure must not fall to allow."""
    ran = []

    def broken(call, tool):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        room.dispatch_of(probe(ran), permit=broken).run(calls_of("ok"), step_chars=9_000, remaining_s=None)
    assert ran == []


def test_an_output_over_its_share_is_kept_whole_in_the_store(room):
    dispatch = room.dispatch_of(probe([]))
    small, huge = dispatch.run(calls_of("ok", "huge"), step_chars=4_000, remaining_s=None)
    assert (small.text, small.output_id) == ("x" * 5, "")
    assert 3_800 < len(huge.text) <= 3_995
    assert room.store.read(huge.output_id) == "x" * 50_000
    assert huge.facts.get("output_chars") == 50_000


def test_a_read_that_was_cut_does_not_claim_its_lines(room):
    (room.root / "long.txt").write_text("some words\n" * 700)
    calls = [ToolCall(f"c{n}", "read", {"path": "long.txt"}) for n in range(3)]
    whole = room.dispatch.run(calls, step_chars=90_000, remaining_s=None)
    cut = room.dispatch.run(calls, step_chars=9_000, remaining_s=None)
    assert all(message.facts.get("last_line") == 700 for message in whole)
    assert not any("last_line" in message.facts for message in cut)
    assert all("digest" in message.facts for message in cut)


def test_null_for_an_optional_argument_means_not_given(room):
    (room.root / "a.txt").write_text("hi\n")
    assert "hi" in room.call("read", path="a.txt", offset=None, limit=None).text
    assert room.call("read", path=None).is_error


def test_control_characters_in_arguments_are_passed_on_as_they_are(room):
    """R50 kimi changelog."""
    room.call("write", path="a.txt", content="tab\there\x01\x1b[0m\n")
    assert (room.root / "a.txt").read_bytes() == b"tab\there\x01\x1b[0m\n"


def test_every_result_can_be_sent_as_json_text(room):
    echo = Tool("echo", "", {"type": "object"}, "read", lambda arguments, context: ToolOutput(arguments["text"]))
    call = ToolCall("c", "echo", {"text": "a\ud83d\ude00b\udc00c\0d\ud800"})
    (message,) = room.dispatch_of(echo).run([call], step_chars=1_000, remaining_s=None)
    assert message.text == "a😀b\ufffdc\ufffdd\ufffd"


def test_seen_follows_the_facts_and_starts_where_a_resumed_run_stopped(room):
    def touch(arguments, context):
        before = dict(context.seen)
        return ToolOutput(str(before), facts=Facts(path="a.py", digest=f"d{len(before)}"))

    dispatch = room.dispatch_of(Tool("touch", "", {"type": "object"}, "read", touch), seen={"old.py": "d"})
    calls = [ToolCall("c1", "touch", {}), ToolCall("c2", "touch", {})]
    first, second = dispatch.run(calls, step_chars=1_000, remaining_s=None)
    assert (first.text, second.text) == ("{'old.py': 'd'}", "{'old.py': 'd', 'a.py': 'd1'}")
    assert dispatch.seen == {"old.py": "d", "a.py": "d2"}


def test_no_call_starts_after_the_time_of_the_run_is_used_up(room):
    ticks = iter(range(0, 100, 10))
    ran = []
    dispatch = room.dispatch_of(probe(ran), clock=lambda: next(ticks))
    messages = dispatch.run(calls_of("ok", "ok", "ok"), step_chars=9_000, remaining_s=25)
    assert [message.is_error for message in messages] == [False, False, True]
    assert ran == ["ok", "ok"]


def test_results_are_reported_one_by_one_as_they_end(room):
    seen = []
    dispatch = room.dispatch_of(probe([]), on_result=lambda call, output: seen.append((call.id, output.is_error)))
    dispatch.run(calls_of("ok", "unknown"), step_chars=9_000, remaining_s=None)
    assert seen == [("c0", False), ("c1", True)]


def test_a_secret_in_a_command_is_not_in_its_facts(room):
    """S41: the journal gets the facts."""
    assert room.call("bash", command="echo hunter2").facts.get("command") == "echo [secret]"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["ok", "big", "huge"]), min_size=1, max_size=8))
def test_a_larger_budget_never_shows_less(places, kinds):
    dispatch = Dispatch(
        [probe([])], *places, permit=not_denied, redact=str, on_crash=lambda call, trace: pytest.fail(trace)
    )
    totals = [
        sum(len(m.text) for m in dispatch.run(calls_of(*kinds), step_chars=budget, remaining_s=None))
        for budget in (1_000, 5_000, 20_000, 100_000)
    ]
    assert all(less <= more for less, more in pairwise(totals))


def test_results_of_the_step_before_are_gone_where_those_of_this_one_cannot_be_stored(places, tmp_path):
    """Found here: after an interrupt, or on a full disk, they were put on record a second time."""
    folder = tmp_path / "outputs"
    dispatch = Dispatch(
        [probe([])],
        places[0],
        FileOutputStore(folder),
        permit=not_denied,
        redact=str,
        on_crash=lambda call, trace: None,
    )
    dispatch.run([call_of(0, "huge")], step_chars=1_000, remaining_s=None)
    shutil.rmtree(folder)
    folder.write_text("a file")
    with pytest.raises(OSError, match="outputs"):
        dispatch.run([call_of(1, "huge")], step_chars=1_000, remaining_s=None)
    assert dispatch.finished == ()
