"""`tinyagent export`, `replay` and `runs`: what scripts and people get, and the exit codes."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.builders import assistant, call, result, task
from tests.trajectory.files import events_of, seeded_run, write_document, write_journal
from tests.trajectory.story import Story
from tests.trajectory.test_runs import ID, make_run, records_of
from tinyagent.cli.export import export
from tinyagent.cli.replay import replay
from tinyagent.cli.runs import runs
from tinyagent.config import UsageError
from tinyagent.core.errors import RecordError
from tinyagent.core.events import ChildEnded, Event, MessageAdded, ModelCalled, Record, RunStarted
from tinyagent.core.state import fold
from tinyagent.core.types import Request, Usage
from tinyagent.models.wires import encode
from tinyagent.trajectory.journal import Journal
from tinyagent.trajectory.native import to_native
from tinyagent.trajectory.runs import list_runs, load

Capture = pytest.CaptureFixture[str]
OPTIONS = {"api": "openai", "model": "gpt-x"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, without any run."""
    monkeypatch.setenv("TINYAGENT_HOME", str(tmp_path))
    return tmp_path


def sent_run(*, digests: bool = True) -> list[Record]:
    """A run of two requests in the form of a real wire, with the digests of their bodies."""
    first = seeded_run()[0].event
    assert isinstance(first, RunStarted)
    events: list[Event] = [
        replace(first, setup=replace(first.setup, options=OPTIONS)),
        MessageAdded(task(), 1),
    ]
    events.append(asked(events, digests))
    events += [MessageAdded(assistant("", call("c1")), 1, 1), MessageAdded(result("c1", "a listing"), 1, 1)]
    events.append(asked(events, digests))
    return [Record(seq, 100.0 + seq, event) for seq, event in enumerate(events, 1)]


def asked(events: list[Event], with_digest: bool) -> ModelCalled:
    state = fold(events)
    body = encode(Request(state.system, state.view.messages, state.tools, 100), OPTIONS)
    digest = hashlib.sha256(body).hexdigest() if with_digest else ""
    return ModelCalled("step", state.step, digest, 1, 100)


@pytest.fixture
def sent(home: Path) -> Path:
    """A native export of such a run."""
    write_document(home / "out.json", to_native(sent_run()))
    return home / "out.json"


@pytest.mark.parametrize("form", ["native", "atif", "mini"])
def test_an_export_in_any_form_can_be_read_again(home: Path, form: str) -> None:
    make_run(home / "runs")
    export("7f3a", to=form, output=str(home / "out.json"))
    messages = fold(events_of(load(str(home / "out.json"), home).records)).messages
    assert [message.text for message in messages] == [f"task of {ID}", "done"]


def test_an_export_to_atif_embeds_the_runs_of_sub_agents(home: Path) -> None:
    child, folder = f"{ID}.1", home / "runs" / ID
    made = Story()
    made.say(task())
    made.ask()
    made.say(assistant("", call("c1", "task")))
    made.note(ChildEnded("c1", child, "submitted", Usage(10, 1), 0.25, 1))
    made.say(result("c1", "done", tool="task"))
    write_journal(folder, made.records)
    write_journal(folder / "children" / "1", records_of(child, parent=ID))
    export(ID, to="atif", output=str(home / "out.json"))
    document = json.loads((home / "out.json").read_bytes())
    assert [part["trajectory_id"] for part in document["subagent_trajectories"]] == [child]


def test_an_export_goes_to_stdout_where_no_file_is_named(
    home: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_run(home / "runs")
    export("latest")
    assert json.loads(capsysbinary.readouterr().out) == to_native(records_of(cwd="/"))


def test_an_unknown_form_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="--to yaml: there is no such form; choose native, atif, mini"):
        export("latest", to="yaml")


def test_an_export_is_utf8_whatever_the_encoding_of_the_terminal(home: Path) -> None:
    records = records_of()
    records[1] = Record(2, 102.0, MessageAdded(task("größer 日本"), 1))
    write_journal(home / "runs" / ID, records)
    program = "import sys; from tinyagent.cli.app import command; command('export').main(sys.argv[1:])"
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-c", program, ID], capture_output=True, env=environ, check=True, timeout=60
    )
    assert json.loads(ended.stdout.decode("utf-8"))["messages"][1]["content"] == "größer 日本"


def test_an_export_into_a_full_disk_fails_in_a_sentence(home: Path) -> None:
    write_journal(home / "runs" / ID, seeded_run(11, steps=100))
    with Path("/dev/full").open("wb") as full:
        program = [sys.executable, "-m", "tinyagent", "export", ID]
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert ended.stderr == b"tinyagent: stdout cannot be written: No space left on device\n"
    assert ended.returncode not in (0, 1)


def test_a_check_that_finds_nothing_wrong_says_so(sent: Path, capsys: Capture) -> None:
    replay(str(sent), check=True)
    assert (
        capsys.readouterr().out == "2 requests, 2 with a digest on record: every one of them rebuilds byte for byte\n"
    )


def test_a_changed_message_fails_the_check_and_is_named(sent: Path, capsys: Capture) -> None:
    sent.write_text(sent.read_text().replace("a listing", "a lasting"))
    with pytest.raises(typer.Exit) as ended:
        replay(str(sent), check=True)
    out, err = capsys.readouterr()
    assert ended.value.exit_code == 1
    assert "request 2 (step 2, step) cannot be rebuilt" in out
    assert "message 3 (result of bash, call c1)" in out
    assert "1 of them cannot be rebuilt as they were sent" in out
    assert "out.json was edited after it was written: #3" in err


def test_a_check_that_can_prove_nothing_fails(home: Path, capsys: Capture) -> None:
    write_journal(home / "runs" / ID, sent_run(digests=False))
    with pytest.raises(typer.Exit) as ended:
        replay(ID, check=True)
    assert ended.value.exit_code == 1
    assert "nothing can be proven" in capsys.readouterr().out


def test_a_request_is_printed_as_it_was_sent(sent: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    replay(str(sent), request=2)
    body = capsysbinary.readouterr().out
    digests = [event.digest for event in events_of(sent_run()) if isinstance(event, ModelCalled)]
    assert hashlib.sha256(body).hexdigest() == digests[1]
    assert [message["role"] for message in json.loads(body)["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.parametrize("number", [0, 3])
def test_a_request_that_was_never_sent_is_told(sent: Path, number: int) -> None:
    with pytest.raises(RecordError, match=f"there is no request {number}: the run sent 2"):
        replay(str(sent), request=number)


def test_two_requests_are_compared(sent: Path, capsys: Capture) -> None:
    replay(str(sent), diff=(1, 2))
    assert capsys.readouterr().out == (
        "added: message 2 (assistant)\n"
        "  + bash {'command': 'ls'}\n"
        "added: message 3 (result of bash, call c1)\n"
        "  + a listing\n"
    )
    replay(str(sent), diff=(2, 2))
    assert capsys.readouterr().out == "requests 2 and 2 do not differ\n"


@pytest.mark.parametrize("asked_for", [{}, {"check": True, "request": 1}, {"request": 1, "diff": (1, 2)}])
def test_a_replay_does_one_thing(asked_for: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="choose one of --check, --request K, --diff K L and --policy NAME"):
        replay("latest", **asked_for)


def test_runs_are_listed_newest_first(home: Path, capsys: Capture) -> None:
    make_run(home / "runs", "20261130-000001-aaaa", age_s=7200)
    with Journal.create(home / "runs" / "20261130-000002-bbbb") as journal:
        for record in records_of("20261130-000002-bbbb", ended=False):
            journal.append(record)
        runs()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["RUN", "STATE", "STEPS", "COST", "AGE", "TASK"],
        ["20261130-000002-bbbb", "running", "1", "$0.25", "0s", "task", "of", "20261130-000002-bbbb"],
        ["20261130-000001-aaaa", "submitted", "1", "$0.25", "2h", "task", "of", "20261130-000001-aaaa"],
    ]


def test_no_more_runs_are_listed_than_asked_for(home: Path, capsys: Capture) -> None:
    for number in range(5):
        make_run(home / "runs", f"20261130-00000{number}-aaaa")
    runs(number=2)
    out = capsys.readouterr().out
    assert out.count("submitted") == 2
    assert "20261130-000004-aaaa" in out
    assert out.endswith("and 3 older ones (-n 0 lists all)\n")
    runs(number=0)
    assert capsys.readouterr().out.count("submitted") == 5


def test_a_hostile_task_does_not_act_on_the_terminal(home: Path, capsys: Capture) -> None:
    records = records_of()
    records[1] = Record(2, 102.0, MessageAdded(task("\x1b]0;title\x07\nsecond [bold]line"), 1))
    write_journal(home / "runs" / ID, records)
    runs()
    assert r"\x1b]0;title\x07 ⏎ second [bold]line" in capsys.readouterr().out


def test_the_json_list_has_every_figure(home: Path, capsys: Capture) -> None:
    folder = make_run(home / "runs", cwd="/work")
    runs(as_json=True)
    (item,) = json.loads(capsys.readouterr().out)
    assert item.pop("last_active") > 1e9
    assert item == {
        "id": ID, "folder": str(folder), "state": "submitted", "task": f"task of {ID}", "model": "openai/gpt-x",
        "cwd": "/work", "parent": "", "steps": 1, "cost_usd": 0.25, "started": 101.0,
    }  # fmt: skip


def test_without_runs_the_list_says_so(home: Path, capsys: Capture) -> None:
    runs()
    assert capsys.readouterr().out == f"no runs in {home / 'runs'}\n"
    runs(as_json=True)
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.usefixtures("capsys")
def test_named_runs_are_removed_all_or_none(home: Path) -> None:
    for end in ("aaaa", "bbbb", "cccc"):
        make_run(home / "runs", f"20261130-000000-{end}")
    with pytest.raises(RecordError, match="there is no run 'dddd'"):
        runs("rm", ["aaaa", "dddd"])
    assert len(list_runs(home / "runs")) == 3
    runs("rm", ["aaaa", "cccc", "aaaa"])
    assert [run.id for run in list_runs(home / "runs")] == ["20261130-000000-bbbb"]


@pytest.mark.parametrize(("keep", "left"), [("30d", 2), ("2w", 1), ("1h", 0), ("0s", 0)])
def test_collection_keeps_what_was_worked_on_lately(home: Path, capsys: Capture, keep: str, left: int) -> None:
    for days in (20, 10, 40):
        make_run(home / "runs", f"202611{days}-000000-aaaa", age_s=days * 86_400)
    runs("gc", keep=keep)
    assert len(list_runs(home / "runs")) == left
    assert capsys.readouterr().out.count("removed ") == 3 - left


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rm",), "runs rm needs the runs to remove"),
        (("gc", ["aaaa"]), "runs gc takes no runs"),
        (("7f3a",), "`tinyagent show 7f3a` shows a run"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, list[str]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        runs(*arguments)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("keep", ["", "30", "d", "-1d", "1.5d", "forever"])
def test_an_age_that_cannot_be_read_removes_nothing(home: Path, keep: str) -> None:
    make_run(home / "runs", age_s=1e9)
    with pytest.raises(UsageError, match="an age such as 30d, 2w or 12h is needed"):
        runs("gc", keep=keep)
    assert len(list_runs(home / "runs")) == 1
