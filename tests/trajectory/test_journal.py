import json
import os
import re
import shutil
import signal
import stat
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import call, user
from tests.trajectory.files import events_of, output_of, python, seeded_run, write_journal
from tests.trajectory.generators import Builder
from tinyagent.core.errors import RecordError
from tinyagent.core.events import (
    KINDS,
    CompactionStarted,
    MessageAdded,
    ModelCalled,
    Notice,
    Record,
    RunResumed,
    Unknown,
)
from tinyagent.core.state import Run, fold
from tinyagent.core.types import AssistantMessage, ToolMessage
from tinyagent.core.view import open_calls, problems
from tinyagent.trajectory.journal import JOURNAL, LOCK, Journal, dead_mark, is_locked
from tinyagent.trajectory.reading import read_journal

APPEND_UNTIL_FULL = """
    import resource, sys
    from pathlib import Path
    from tinyagent.core.errors import RecordError
    from tinyagent.core.events import Notice, Record
    from tinyagent.trajectory.journal import Journal
    with Journal.open(Path(sys.argv[1])) as journal:
        size = journal.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300, resource.RLIM_INFINITY))
        journal.append(Record(journal.contents.next_seq, 1.0, Notice("fits")))
        try:
            journal.append(Record(journal.contents.next_seq + 1, 1.0, Notice("too long " * 100)))
        except RecordError as error:
            print(error)
        journal.append(Record(journal.contents.next_seq + 1, 1.0, Notice("fits too")))
"""
OPEN_AND_WAIT = """
    import sys
    from pathlib import Path
    from tinyagent.trajectory.journal import Journal
    with Journal.open(Path(sys.argv[1])):
        print("open", flush=True)
        sys.stdin.read()
"""
APPEND_FOR_EVER = """
    import sys
    from pathlib import Path
    from tinyagent.core.events import Notice, Record
    from tinyagent.trajectory.journal import Journal
    with Journal.open(Path(sys.argv[1])) as journal:
        seq = journal.contents.next_seq
        while True:
            journal.append(Record(seq, 1.0, Notice("x" * 100_000)))
            print(seq, flush=True)
            seq += 1
"""


@given(st.randoms(), st.integers(0, 6))
def test_the_fold_of_the_journal_equals_the_live_state(random: Random, steps: int) -> None:
    builder = Builder(random)
    with TemporaryDirectory() as folder:
        path = write_journal(Path(folder) / "run", builder.build(steps))
        contents = read_journal(path)
    assert contents.records == tuple(builder.records)
    assert fold(events_of(contents.records)) == builder.state
    assert not contents.notices


@pytest.mark.parametrize("kind", [*KINDS.values(), Unknown])
def test_a_run_killed_after_any_kind_of_event_is_taken_up_with_the_state_it_had(tmp_path: Path, kind: type) -> None:
    """R25 claude-code#52387: sessions that could not be loaded after a SIGKILL. Context case 149: a pass that began and
    did not end must hide nothing."""
    records = until(kind)
    live = fold(events_of(records))
    write_journal(tmp_path / "run", records)
    with Journal.open(tmp_path / "run") as journal:
        run = Run(
            sink=journal.append,
            clock=lambda: 1.0,
            state=fold(events_of(journal.contents.records)),
            next_seq=journal.contents.next_seq,
        )
        assert run.state == live
        run.emit(RunResumed("0.1.0", live.setup))
        for waiting in open_calls(run.state.view):
            run.emit(MessageAdded(ToolMessage(waiting.id, waiting.name, "not run", is_error=True), 1))
        run.emit(MessageAdded(user("Go on."), 1))
    assert fold(events_of(read_journal(journal.path).records)) == run.state
    assert problems(run.state.view) == []


def until(kind: type) -> list[Record]:
    """A run cut off after its first event of this kind."""
    for seed in range(200):
        records = seeded_run(seed, steps=6)
        for number, record in enumerate(records, 1):
            if isinstance(record.event, kind):
                return records[:number]
    raise AssertionError(f"no generated run has a {kind.__name__}")


def test_a_kill_during_a_summary_leaves_the_view_as_it_was(tmp_path: Path) -> None:
    """Context case 145, hermes#79391: an interrupted pass deleted the history."""
    records = next(found for seed in range(200) if isinstance((found := until_summary(seed))[-1].event, ModelCalled))
    start = max(i for i, record in enumerate(records) if isinstance(record.event, CompactionStarted))
    contents = read_journal(write_journal(tmp_path / "run", records))
    assert fold(events_of(contents.records)).view == fold(events_of(records[:start])).view


def until_summary(seed: int) -> list[Record]:
    records = seeded_run(seed, steps=6)
    for number, record in enumerate(records, 1):
        if isinstance(record.event, ModelCalled) and record.event.purpose == "summary":
            return records[:number]
    return records[:1]


def test_what_was_appended_before_a_sigkill_is_there(tmp_path: Path) -> None:
    """R25: SIGKILL at random points."""
    write_journal(tmp_path / "run", seeded_run()[:1])
    child = python(APPEND_FOR_EVER, tmp_path / "run")
    assert child.stdout is not None
    told = [int(child.stdout.readline()) for _ in range(5)]
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    with Journal.open(tmp_path / "run") as journal:
        seqs = [record.seq for record in journal.contents.records]
    assert set(told) <= set(seqs)
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_record_is_one_line_that_a_reader_of_json_lines_takes(tmp_path: Path) -> None:
    records = seeded_run(3)
    data = write_journal(tmp_path / "run", records).read_bytes()
    assert data.endswith(b"\n")
    lines = data.removesuffix(b"\n").split(b"\n")
    assert [json.loads(line)["seq"] for line in lines] == [record.seq for record in records]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_becomes_null(tmp_path: Path, number: float) -> None:
    message = AssistantMessage("", (call(n=number),), "tool_calls")
    path = write_journal(tmp_path / "run", [seeded_run()[0], Record(2, 1.0, MessageAdded(message, 1))])
    read = read_journal(path).records[1].event
    assert isinstance(read, MessageAdded)
    assert read.message == AssistantMessage("", (call(n=None),), "tool_calls")


def test_a_lone_surrogate_comes_back_as_it_was(tmp_path: Path) -> None:
    record = Record(2, 1.0, MessageAdded(user("half \ud83d and 日本"), 1))
    path = write_journal(tmp_path / "run", [seeded_run()[0], record])
    assert b"\\ud83d" in path.read_bytes()
    assert read_journal(path).records[1] == record


def test_folder_and_file_are_for_the_user_alone(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "runs" / "run", seeded_run())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_second_journal_in_one_folder_is_refused(tmp_path: Path) -> None:
    write_journal(tmp_path / "run", seeded_run())
    with pytest.raises(RecordError, match="there is one already"):
        Journal.create(tmp_path / "run")


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="there is no run in this folder"):
        Journal.open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    """R31 claude-code 2.1.162: home or config folder read-only."""
    tmp_path.chmod(0o500)
    with pytest.raises(RecordError, match="cannot be created: Permission denied"):
        Journal.create(tmp_path / "run")


def test_a_file_in_the_place_of_the_folder_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RecordError, match="cannot be created"):
        Journal.create(tmp_path / "runs" / "run")


def test_a_second_process_is_told_who_works_on_the_run(tmp_path: Path) -> None:
    """R32 claude-code#20992: two processes on one session."""
    write_journal(tmp_path / "run", seeded_run())
    child = python(OPEN_AND_WAIT, tmp_path / "run")
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    assert is_locked(tmp_path / "run")
    with pytest.raises(RecordError, match=rf"process {child.pid} is working on the run .*--fork"):
        Journal.open(tmp_path / "run")
    child.communicate("", timeout=60)
    assert not is_locked(tmp_path / "run")
    Journal.open(tmp_path / "run").close()


def test_a_lock_that_a_killed_process_left_holds_nobody_up(tmp_path: Path) -> None:
    write_journal(tmp_path / "run", seeded_run())
    child = python(OPEN_AND_WAIT, tmp_path / "run")
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.communicate(timeout=60)
    assert (tmp_path / "run" / LOCK).read_text() == f"{child.pid}\n"
    Journal.open(tmp_path / "run").close()


def test_a_run_keeps_the_mark_of_its_processes_and_a_copy_has_another(tmp_path: Path) -> None:
    write_journal(tmp_path / "run", seeded_run())
    with Journal.open(tmp_path / "run") as first:
        shutil.copytree(tmp_path / "run", tmp_path / "copied" / "run")
    with Journal.open(tmp_path / "run") as again, Journal.open(tmp_path / "copied" / "run") as copied:
        assert again.mark == first.mark
        assert copied.mark not in ("", first.mark)


def test_the_mark_of_a_run_is_told_only_while_nobody_works_on_it(tmp_path: Path) -> None:
    write_journal(tmp_path / "run", seeded_run())
    with Journal.open(tmp_path / "run") as journal, dead_mark(tmp_path / "run") as mark:
        assert mark == ""
    with dead_mark(tmp_path / "run") as mark:
        assert mark == journal.mark
        with pytest.raises(RecordError, match="is working on the run"):
            Journal.open(tmp_path / "run")


def test_asking_whether_a_run_is_locked_disturbs_nobody(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    write_journal(tmp_path / "run", seeded_run())
    with Journal.open(tmp_path / "run"):
        assert is_locked(tmp_path / "run")
    assert not is_locked(tmp_path / "run")


def test_a_full_disk_costs_one_record_and_nothing_before_it(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "run", seeded_run())
    before = path.read_bytes()
    told = output_of(APPEND_UNTIL_FULL, tmp_path / "run")
    assert re.match(rf"{re.escape(str(path))} cannot be written: File too large\. All records before are safe", told)
    contents = read_journal(path)
    assert path.read_bytes().startswith(before)
    assert events_of(contents.records)[-2:] == [Notice("fits"), Notice("fits too")]
    assert not contents.notices


def test_a_closed_journal_can_be_closed_again(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "run")
    journal.close()
    journal.close()
    assert (tmp_path / "run" / JOURNAL).read_bytes() == b""
