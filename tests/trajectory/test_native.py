"""The exported document: what scripts find in it, and that nothing of the run is lost in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.builders import assistant, call, result, task
from tests.trajectory.files import events_of, output_of, seeded_run, write_document, write_journal
from tests.trajectory.generators import plain_body, runs
from tinyagent.core.errors import RecordError
from tinyagent.core.events import Compacted, MessageAdded, ModelCalled, Record, RunEnded
from tinyagent.core.state import fold
from tinyagent.core.types import Json, Usage
from tinyagent.trajectory.documents import read_document
from tinyagent.trajectory.native import FORMAT, changed_messages, dump, from_native, to_native
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.replay import check, requests
from tinyagent.trajectory.writing import write_file

WRITE_UNTIL_FULL = """
    import resource, sys
    from pathlib import Path
    from tinyagent.core.errors import RecordError
    from tinyagent.trajectory.writing import write_file
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        write_file(Path(sys.argv[1]), b"x" * 2000)
    except RecordError as error:
        print(error)
"""


def again(records: list[Record]) -> list[Record]:
    """The records after a way through the document's text."""
    return from_native(json.loads(dump(to_native(records))))


@given(runs())
def test_the_document_holds_every_record(records: list[Record]) -> None:
    assert again(records) == records


@given(runs())
def test_every_request_is_rebuilt_from_the_document_byte_for_byte(records: list[Record]) -> None:
    sent = [plain_body(s.request, s.options) for s in requests(records)]
    assert [plain_body(s.request, s.options) for s in requests(again(records))] == sent
    assert check(again(records), plain_body) == []


@given(runs())
def test_the_document_is_strict_json_and_its_export_is_always_the_same(records: list[Record]) -> None:
    data = dump(to_native(records))
    document = json.loads(data.decode("utf-8"), parse_constant=pytest.fail)
    assert document["trajectory_format"] == FORMAT == "tinyagent-1"
    assert dump(to_native(from_native(document))) == data


@given(runs())
def test_totals_and_counts_are_those_of_the_state(records: list[Record]) -> None:
    document = to_native(records)
    state = fold(events_of(records))
    stats = document["info"]["model_stats"]
    assert stats["steps"] == state.spend.steps
    assert stats["api_calls"] == state.spend.requests
    assert stats["instance_cost"] == state.spend.cost_usd
    assert stats["input_tokens"] == state.spend.usage.input_tokens
    assert len(document["messages"]) == len(state.messages) + 1
    assert [item["extra"]["id"] for item in document["messages"]] == list(range(len(state.messages) + 1))


@given(runs())
def test_compactions_stand_there_if_and_only_if_there_were_some(records: list[Record]) -> None:
    document = to_native(records)
    passes = [event for event in events_of(records) if isinstance(event, Compacted)]
    assert [item["view"] for item in document.get("compactions", [])] == [[0, *event.view] for event in passes]
    assert ("compactions" in document) == bool(passes)


def small_run() -> list[Record]:
    """A start, a task, a step with a call that failed with 2, a summary pass, a last step, the end."""
    start = seeded_run()[0].event
    used = Usage(1000, 50, 800)
    events = [
        start,
        MessageAdded(task(), 10),
        ModelCalled(
            "step", 1, "d1", 900, usage=used, context_tokens=1050, cost_usd=0.5, model="gpt-x-1", duration_s=2.0
        ),
        MessageAdded(assistant("looking", call("c1")), 20, 1),
        MessageAdded(result("c1", "no such file", is_error=True), 30, 1),
        ModelCalled(
            "summary", 2, "d2", 950, usage=Usage(400, 40), cost_usd=0.25, request={"system": "s", "messages": []}
        ),
        Compacted("budget", 2, 1100, 500, (1, -1), ("elide", "summarize"), summarized=(2, 3), summary="So far."),
        ModelCalled("step", 2, "d3", 500, usage=Usage(480, 30), context_tokens=510, cost_usd=0.125),
        MessageAdded(assistant("done"), 5, 2),
        RunEnded("submitted", submission="done"),
    ]
    return [Record(seq, 1_764_500_000.0 + seq, event) for seq, event in enumerate(events, 1)]


def test_the_keys_that_scripts_rely_on() -> None:
    document = to_native(small_run())
    assert list(document) == [
        "trajectory_format", "info", "messages", "compactions", "requests", "tools", "system", "events",
    ]  # fmt: skip
    info = document["info"]
    assert {k: info[k] for k in ("exit_status", "reason", "retryable", "error", "submission", "model_returned")} == {
        "exit_status": "Submitted",
        "reason": "submitted",
        "retryable": False,
        "error": None,
        "submission": "done",
        "model_returned": "gpt-x-1",
    }
    assert (info["started_at"], info["ended_at"]) == ("2025-11-30T10:53:21.000Z", "2025-11-30T10:53:30.000Z")
    assert info["model_stats"] == {
        "api_calls": 3,
        "steps": 2,
        "input_tokens": 1880,
        "output_tokens": 120,
        "cache_read_tokens": 800,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
        "instance_cost": 0.875,
    }


def test_messages_have_the_form_of_chat_programs() -> None:
    _, first, reply, answer, _ = to_native(small_run())["messages"]
    assert (first["role"], first["content"], first["extra"]["kind"]) == ("user", "Fix the failing test.", "task")
    assert reply["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    ]
    assert reply["extra"]["cost_usd"] == 0.5
    assert reply["extra"]["usage"]["cache_read_tokens"] == 800
    assert (answer["role"], answer["tool_call_id"], answer["extra"]["is_error"]) == ("tool", "c1", True)


def test_a_compaction_tells_its_costs_and_what_the_next_request_used() -> None:
    (item,) = to_native(small_run())["compactions"]
    wanted = {
        "step": 2,
        "reason": "budget",
        "stage": "summarize",
        "tokens_before": 1100,
        "tokens_after": 500,
        "summarized": [2, 3],
        "elided": [],
        "summary": "So far.",
        "summary_cost_usd": 0.25,
        "view": [0, 1, -1],
    }
    assert {key: item[key] for key in wanted} == wanted
    assert item["summary_usage"]["input_tokens"] == 400
    assert item["first_usage_after"]["input_tokens"] == 480


def test_a_killed_run_is_exported_as_one_that_can_be_taken_up_again() -> None:
    info = to_native(small_run()[:4])["info"]
    assert (info["exit_status"], info["reason"], info["ended_at"], info["retryable"]) == (None, None, None, True)


def test_an_unknown_price_makes_the_cost_null_and_never_0() -> None:
    records = [r for r in small_run() if not isinstance(r.event, ModelCalled) or r.event.digest != "d3"]
    unpriced = Record(11, 1_764_500_099.0, ModelCalled("step", 3, "d4", 1, usage=Usage(1, 1)))
    assert to_native([*records, unpriced])["info"]["model_stats"]["instance_cost"] is None


def test_lone_surrogates_become_question_marks_as_in_a_request() -> None:
    records = [small_run()[0], Record(2, 1.0, MessageAdded(task("half \ud83d"), 1))]
    document = json.loads(dump(to_native(records)).decode("utf-8"))
    assert document["messages"][1]["content"] == "half ?"


def test_records_that_do_not_begin_with_a_start_cannot_be_exported() -> None:
    with pytest.raises(RecordError, match="not the start of a run"):
        to_native(small_run()[1:])


def edit_text(document: Json) -> None:
    document["messages"][3]["content"] = "all tests pass"


def edit_system(document: Json) -> None:
    document["system"] = "You are a pirate."


def edit_arguments(document: Json) -> None:
    document["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"command": "rm -rf /"}'


@pytest.mark.parametrize(("edit", "changed"), [(edit_text, [3]), (edit_system, [0]), (edit_arguments, [2])])
def test_messages_that_were_edited_after_the_export_are_found(edit: Callable[[Json], None], changed: list[int]) -> None:
    document = json.loads(dump(to_native(small_run())))
    assert changed_messages(document) == []
    edit(document)
    assert changed_messages(document) == changed


def drop_messages(document: Json) -> None:
    del document["messages"]


def drop_kind(document: Json) -> None:
    del document["messages"][1]["extra"]["kind"]


def drop_start(document: Json) -> None:
    document["events"] = document["events"][1:]


def break_arguments(document: Json) -> None:
    document["messages"][2]["tool_calls"][0]["function"]["arguments"] = "{"


def break_time(document: Json) -> None:
    document["requests"][1]["timestamp"] = "yesterday"


def break_view(document: Json) -> None:
    document["compactions"][0]["view"] = "all"


def break_item(document: Json) -> None:
    document["requests"] = [7]


def other_role(document: Json) -> None:
    document["messages"][1]["role"] = "developer"


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (drop_messages, r"messages\[0\]: the system message is missing"),
        (drop_kind, r"messages\[1\]: 'kind' is missing"),
        (drop_start, "events: the start of the run is missing"),
        (break_arguments, r"messages\[2\]: "),
        (break_time, r"requests\[1\]: "),
        (break_view, r"compactions\[0\]: "),
        (break_item, r"requests\[0\]: an object is needed, not int"),
        (other_role, r"messages\[1\]: the role 'developer' is not known"),
    ],
)
def test_a_damaged_document_is_refused_with_the_place_in_it(damage: Callable[[Json], None], place: str) -> None:
    document = json.loads(dump(to_native(small_run())))
    damage(document)
    with pytest.raises(RecordError, match=place):
        from_native(document)


@pytest.mark.parametrize("document", [{}, {"trajectory_format": "mini-swe-agent-1.1"}])
def test_what_is_another_form_is_refused(document: Json) -> None:
    with pytest.raises(RecordError):
        from_native(document)


def test_any_value_in_any_place_of_a_document_is_refused_in_a_sentence_or_read(tmp_path: Path) -> None:
    """Never a traceback, whatever an editor did (issue: "a bad attachment")."""
    text = dump(to_native(small_run())).decode()
    for path in places(json.loads(text)):
        for value in (None, "x", [None]):
            document = json.loads(text)
            put(document, path, value)
            (tmp_path / "edited.json").write_text(json.dumps(document))
            try:
                contents = read_document(tmp_path / "edited.json")
                check(contents.records, plain_body, changed=contents.changed)
            except RecordError:
                continue
            assert fold(events_of(contents.records)).messages, path


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of everything in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [place for key, inner in items for place in places(inner, (*path, key))]
    return [path, *below] if path else below


def put(document: Json, path: tuple[str | int, ...], value: object) -> None:
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value


def test_an_export_is_made_again_from_the_journal_after_a_kill(tmp_path: Path) -> None:
    records = seeded_run(5)[:-2]
    path = write_journal(tmp_path / "run", records)
    assert dump(to_native(read_journal(path).records)) == dump(to_native(records))


def test_an_export_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "below" / "out.json"
    write_document(target, to_native(small_run()))
    write_document(target, to_native(seeded_run(2)))
    assert json.loads(target.read_bytes())["messages"] == to_native(seeded_run(2))["messages"]
    assert [path.name for path in target.parent.iterdir()] == ["out.json"]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_the_old_export_as_it_was(tmp_path: Path) -> None:
    """R34: kill or full disk during a write; the previous file stays intact."""
    target = tmp_path / "out.json"
    target.write_bytes(b"old")
    assert output_of(WRITE_UNTIL_FULL, target) == f"{target} cannot be written: File too large\n"
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.json", b"old")]


@pytest.mark.parametrize("place", ["/dev/full", "/proc/nothing/out.json"])
def test_a_place_that_takes_no_file_is_told(place: str) -> None:
    with pytest.raises(RecordError, match=f"{place} cannot be written: "):
        write_file(Path(place), b"x" * 100_000)


def test_an_export_through_a_link_replaces_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_file(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"
