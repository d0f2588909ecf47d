import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, task
from tests.trajectory.files import events_of, seeded_run, write_document, write_journal, write_lines
from tests.trajectory.generators import build_run
from tinyagent.core.errors import RecordError
from tinyagent.core.events import MessageAdded, ModelCalled, Record, RunEnded, RunStarted
from tinyagent.core.state import fold
from tinyagent.core.types import Json, Usage
from tinyagent.trajectory.atif import to_atif
from tinyagent.trajectory.journal import JOURNAL, Journal
from tinyagent.trajectory.mini import to_mini
from tinyagent.trajectory.native import to_native
from tinyagent.trajectory.runs import find_run, gc, list_runs, load, new_run_id, remove_run, summarize_run

ID = "20261130-054112-7f3a"


def records_of(run_id: str = ID, *, cwd: str = "/", parent: str = "", ended: bool = True) -> list[Record]:
    """A run of one step for $0.25."""
    first = seeded_run()[0].event
    assert isinstance(first, RunStarted)
    events = [
        RunStarted(run_id, "0.1.0", cwd, first.setup, "system", (), parent=parent),
        MessageAdded(task(f"task of {run_id}"), 1),
        ModelCalled("step", 1, "", 1, usage=Usage(10, 1), cost_usd=0.25),
        MessageAdded(assistant("done"), 1, 1),
        RunEnded("submitted"),
    ]
    return [Record(seq, 100.0 + seq, event) for seq, event in enumerate(events if ended else events[:-1], 1)]


def make_run(root: Path, run_id: str = ID, *, age_s: float = 0, cwd: str = "/", parent: str = "") -> Path:
    """A finished run in `root` that was last worked on so long ago."""
    path = write_journal(root / run_id, records_of(run_id, cwd=cwd, parent=parent))
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path.parent


@given(st.floats(0, 4e9), st.floats(0, 4e9), st.randoms())
def test_ids_sort_by_time_and_are_short(first: float, second: float, random: Random) -> None:
    early, late = new_run_id(min(first, second), random), new_run_id(max(first, second), random)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", early)
    assert early[:-4] <= late[:-4]


def test_an_id_tells_the_utc_time() -> None:
    assert new_run_id(1796017272.9, Random(1)).startswith("20261130-054112-")


@pytest.mark.parametrize("ref", [ID, "20261130-054112", "20261130-0541", "7f3a", "latest"])
def test_a_run_is_found_by_id_beginning_last_part_or_as_the_latest(tmp_path: Path, ref: str) -> None:
    make_run(tmp_path, "20261129-235959-0001", age_s=50)
    wanted = make_run(tmp_path)
    assert find_run(tmp_path, ref) == wanted


def test_a_sub_agents_run_is_found_by_its_number(tmp_path: Path) -> None:
    child = write_journal(make_run(tmp_path) / "children" / "2", records_of(f"{ID}.2", parent=ID)).parent
    assert find_run(tmp_path, f"{ID}.2") == find_run(tmp_path, "7f3a.2") == child
    with pytest.raises(RecordError, match="there is no run of a sub-agent 3"):
        find_run(tmp_path, "7f3a.3")


def test_an_ambiguous_beginning_names_the_candidates(tmp_path: Path) -> None:
    for end in ("aaaa", "bbbb"):
        make_run(tmp_path, f"20261130-054112-{end}")
    with pytest.raises(RecordError, match="any of 2 runs: 20261130-054112-aaaa, 20261130-054112-bbbb;"):
        find_run(tmp_path, "2026")


@pytest.mark.parametrize(
    "ref",
    ["", ".", "..", "../../x", "../runs/" + ID, "/etc", "a/b", "x" * 300, ".hidden", "*", "2026*", ID + "/", "\n"],
)
def test_no_reference_leads_out_of_the_folder_of_runs(tmp_path: Path, ref: str) -> None:
    """S26: `--resume ../../x`."""
    root = tmp_path / "runs"
    make_run(root)
    make_run(tmp_path, "x")
    write_journal(root / ".hidden", records_of())
    with pytest.raises(RecordError, match="there is no run"):
        find_run(root, ref)


def test_links_and_folders_without_a_journal_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "runs" / "empty").mkdir(parents=True)
    make_run(tmp_path, "outside")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside")
    assert list_runs(tmp_path / "runs") == []


def test_the_latest_is_the_one_last_worked_on_and_no_sub_agents(tmp_path: Path) -> None:
    make_run(tmp_path, "20261130-000002-aaaa", age_s=100)
    wanted = make_run(tmp_path, "20261130-000001-bbbb", age_s=50)  # resumed later
    make_run(tmp_path, "20261130-000003-cccc", parent="20261130-000001-bbbb")
    assert find_run(tmp_path, "latest") == wanted


def test_the_latest_of_a_folder_is_that_of_its_real_path(tmp_path: Path) -> None:
    """S25: `a_b`, `a-b` and `a.b` are three projects; a link to a project is that project."""
    runs = tmp_path / "runs"
    for number, name in enumerate(("a_b", "a-b", "a.b")):
        (tmp_path / name).mkdir()
        make_run(runs, f"20261130-00000{number}-aaaa", age_s=number, cwd=str(tmp_path / name))
    (tmp_path / "link").symlink_to("a.b")
    assert find_run(runs, "latest", cwd=tmp_path / "a-b").name == "20261130-000001-aaaa"
    assert find_run(runs, "latest", cwd=tmp_path / "link").name == "20261130-000002-aaaa"
    with pytest.raises(RecordError, match=rf"no run that was started in {re.escape(str(tmp_path))}"):
        find_run(runs, "latest", cwd=tmp_path)


def test_where_there_are_no_runs_that_is_said(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "never made") == []
    with pytest.raises(RecordError, match="there is no run"):
        find_run(tmp_path / "never made", "latest")


def test_a_list_tells_task_state_steps_cost_and_times(tmp_path: Path) -> None:
    make_run(tmp_path, cwd="/home/user/project")
    (run,) = list_runs(tmp_path)
    assert (run.id, run.state, run.task, run.steps, run.cost_usd) == (ID, "submitted", f"task of {ID}", 1, 0.25)
    assert (run.model, run.cwd, run.started) == ("openai/gpt-x", "/home/user/project", 101.0)
    assert run.last_active == pytest.approx(time.time(), abs=60)


@given(st.randoms(), st.integers(0, 6))
def test_the_figures_of_a_list_are_those_of_the_whole_run(random: Random, steps: int) -> None:
    records = build_run(random, steps=steps)
    with TemporaryDirectory() as folder:
        summary = summarize_run(write_journal(Path(folder) / ID, records).parent)
    state = fold(events_of(records))
    assert (summary.steps, summary.cost_usd) == (state.spend.steps, state.spend.cost_usd)
    assert summary.task == state.messages[0].text
    assert summary.state == (state.ended.reason if state.ended else "stopped")


def test_a_run_in_progress_and_a_killed_one_are_told_apart(tmp_path: Path) -> None:
    with Journal.create(tmp_path / ID) as journal:
        for record in records_of(ended=False):
            journal.append(record)
        assert summarize_run(tmp_path / ID).state == "running"
    assert summarize_run(tmp_path / ID).state == "stopped"


@pytest.mark.parametrize("data", [b"", b"garbage\n", b"\xff\0", b'{"seq":1,"time":1,"event":"run_started"}\n'])
def test_a_damaged_run_is_in_the_list_as_unreadable(tmp_path: Path, data: bytes) -> None:
    write_lines(tmp_path / ID, [data])
    assert [(run.id, run.state, run.task) for run in list_runs(tmp_path)] == [(ID, "unreadable", "")]


def test_a_removed_run_is_gone_with_all_its_files(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "o1.txt").write_text("output")
    remove_run(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_progress_is_not_removed(tmp_path: Path) -> None:
    with Journal.create(tmp_path / ID), pytest.raises(RecordError, match=f"{ID} is running"):
        remove_run(tmp_path / ID)
    assert (tmp_path / ID / JOURNAL).exists()


def test_collection_takes_what_is_old_and_not_running(tmp_path: Path) -> None:
    make_run(tmp_path, "20261101-000000-aaaa", age_s=100)
    make_run(tmp_path, "20261102-000000-bbbb", age_s=10)
    make_run(tmp_path, "20261103-000000-cccc", age_s=100)
    with Journal.open(tmp_path / "20261103-000000-cccc"):
        os.utime(tmp_path / "20261103-000000-cccc" / JOURNAL, (1, 1))
        assert gc(tmp_path, older_than_s=50, now=time.time()) == ["20261101-000000-aaaa"]
    assert [run.id for run in list_runs(tmp_path)] == ["20261102-000000-bbbb", "20261103-000000-cccc"]


def test_collection_also_takes_what_an_interrupted_removal_left(tmp_path: Path) -> None:
    write_journal(tmp_path / f".removing-{ID}", records_of())
    assert list_runs(tmp_path) == []
    gc(tmp_path, older_than_s=50, now=time.time())
    assert list(tmp_path.iterdir()) == []


def test_everything_that_holds_a_run_can_be_loaded(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs")
    write_document(tmp_path / "out.json", to_native(records_of()))
    (tmp_path / "no-suffix").write_bytes((folder / JOURNAL).read_bytes())
    for ref in (folder / JOURNAL, folder, tmp_path / "out.json", tmp_path / "no-suffix", ID, "7f3a", "latest"):
        assert load(str(ref), tmp_path / "runs").records == tuple(records_of()), ref


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", ":1: it is not JSON"),
        (b"{", ":1: it is not JSON"),
        (b"{}", "is not a trajectory"),
        (b"[]", "holds no JSON object"),
        (b'{"trajectory_format": "other"}', "in a form that is known"),
        (b'{"trajectory_format": "tinyagent-1"}', "the system message is missing"),
        (b'{"a": "\xff"}', "is not a text in UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_holds_no_run_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(data)
    with pytest.raises(RecordError, match=said) as caught:
        load(str(path), tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("ref", ["missing.json", "below/missing", "missing.jsonl"])
def test_a_missing_file_is_not_taken_for_a_run(tmp_path: Path, ref: str) -> None:
    with pytest.raises(RecordError, match=f"{ref} does not exist"):
        load(ref, tmp_path)


def test_a_name_that_no_file_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="x cannot be read: File name too long"):
        load("x" * 300, tmp_path)


def test_an_edited_document_tells_which_messages_were_changed(tmp_path: Path) -> None:
    document = to_native(records_of())
    document["messages"][1]["content"] = "another task"
    (tmp_path / "out.json").write_text(json.dumps(document))
    assert load(str(tmp_path / "out.json"), tmp_path).changed == (1,)


@pytest.mark.parametrize("export", [to_native, to_atif, to_mini])
def test_every_form_that_is_exported_can_be_loaded(tmp_path: Path, export: Callable[[list[Record]], Json]) -> None:
    (tmp_path / "out.json").write_text(json.dumps(export(records_of())))
    state = fold(events_of(load(str(tmp_path / "out.json"), tmp_path).records))
    assert [message.text for message in state.messages] == [f"task of {ID}", "done"]
    assert (state.spend.steps, state.spend.cost_usd) == (1, 0.25)
