"""The task file is judged as a whole before anything is spent."""

import json
from pathlib import Path

import pytest

from tinyagent.batch.tasks import Checkout, Choice, Folder, Task, choose, job_name, read_tasks
from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Json


def write(folder: Path, *rows: object, name: str = "tasks.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def row(**more: object) -> Json:
    return {"id": "a", "task": "Fix it.", **more}


def tasks(*ids: str) -> list[Task]:
    return [Task(name, "Fix it.") for name in ids]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "this is not JSON"),
        ([], "a task is an object"),
        ({"task": "x"}, "id: a name is needed"),
        ({"id": "", "task": "x"}, "id: a name is needed"),
        ({"id": True, "task": "x"}, "id: a name is needed"),
        ({"id": "x"}, "task: a text is needed"),
        (row(task=7), "task: a text is needed"),
        (row(dir="nowhere"), "is not a directory"),
        (row(dir=".", repo="."), "choose one"),
        (row(repo="https://example.org/x.git"), "clone it"),
        (row(repo="nowhere"), "no repository at"),
        (row(chek="true"), "did you mean check?"),
        (row(limits={"cost": 1}), "there is no such limit"),
        (row(limits={"cost_limit": -1}), "is negative"),
        (row(limits={"time_limit": "soon"}), "a duration such as"),
        (row(limits=[1]), "can be set"),
        (row(sandbox="chroot"), "one of auto, local, bubblewrap, docker, podman"),
        (row(env={"A B": "x"}), "env: A B"),
        (row(env={"A": 1}), "env: A"),
        (row(oracle="x"), "oracle: a list"),
    ],
)
def test_a_fault_names_its_line_and_what_is_wrong(tmp_path: Path, bad: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tasks(write(tmp_path, {"id": "good", "task": "x"}, "", bad))
    assert "tasks.jsonl:3: " in str(caught.value)
    assert words in str(caught.value)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tasks(write(tmp_path, {"id": "a"}, {"task": "b"}, *({"id": f"x{n}"} for n in range(20))))
    assert str(caught.value).count("\n") == 10
    assert "and 12 more" in str(caught.value)


def test_an_id_may_stand_in_a_file_once_whatever_its_case(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tasks.jsonl:2: id: A is there already, at .*tasks.jsonl:1"):
        read_tasks(write(tmp_path, row(), row(id="A")))


def test_a_file_without_a_task_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no task in it"):
        read_tasks(write(tmp_path))


def test_limits_are_read_as_settings_are(tmp_path: Path) -> None:
    limits = {"step_limit": 20, "cost_limit": 0.05, "time_limit": "5m"}
    (task,) = read_tasks(write(tmp_path, row(limits=limits, sandbox="bubblewrap", extra_column=[1, 2])))
    assert (task.step_limit, task.cost_limit, task.time_limit, task.sandbox) == (20, 0.05, 300.0, "bubblewrap")


def test_a_folder_is_looked_for_beside_the_task_file(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (task,) = read_tasks(write(tmp_path, row(dir="work")))
    assert task.source == Folder(tmp_path / "work")


def test_rows_of_swe_bench_are_tasks(tmp_path: Path) -> None:
    (tmp_path / "repos" / "django__django" / "objects").mkdir(parents=True)
    swe = {
        "instance_id": "django__django-1",
        "problem_statement": "It breaks.",
        "base_commit": "abc",
        "repo": "django/django",
        "hints_text": "",
        "test_patch": "diff",
    }
    (task,) = read_tasks(write(tmp_path, swe), repos=tmp_path / "repos")
    assert (task.id, task.text) == ("django__django-1", "It breaks.")
    assert task.source == Checkout(tmp_path / "repos" / "django__django", "abc")


@pytest.mark.parametrize("text", ["- id: a\n  task: Fix it.\n", "tasks:\n- {id: a, task: Fix it.}\n"])
def test_tasks_may_be_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.yaml").write_text(text, encoding="utf-8")
    assert [(t.id, t.text) for t in read_tasks(tmp_path / "tasks.yaml")] == [("a", "Fix it.")]


def test_a_fault_in_yaml_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text("- id: a\n  task: x\n- id: b\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tasks.yaml:3: task: a text is needed"):
        read_tasks(tmp_path / "tasks.yaml")


def test_tasks_may_be_a_json_list(tmp_path: Path) -> None:
    assert [t.id for t in read_tasks(write(tmp_path, json.dumps([row(), row(id=7)]), name="tasks.json"))] == ["a", "7"]


@pytest.mark.parametrize("name", ["../../x", "a/b", "x" * 300, ".", "..", ".hidden", "a\0b", "-rf", "a@2"])
def test_no_id_leads_out_of_the_folder_of_the_batch(tmp_path: Path, name: str) -> None:
    """S26: names from data used as paths."""
    for attempt in (1, 2):
        folder = tmp_path / job_name(name, attempt)
        folder.mkdir()
        assert folder.parent == tmp_path
        assert folder.resolve().parent == tmp_path


def test_attempts_and_ids_never_share_a_folder() -> None:
    assert len({job_name(name, attempt) for name in ("a", "a@2", "a~2", "a_2") for attempt in (1, 2, 3)}) == 12


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Choice(), "abcdef"),
        (Choice(filter="[ace]"), "ace"),
        (Choice(slice="1:3"), "bc"),
        (Choice(slice="-2:"), "ef"),
        (Choice(shard="1/2"), "ace"),
        (Choice(shard="2/2"), "bdf"),
        (Choice(filter="[^a]", slice="0:4", shard="2/2"), "ce"),
    ],
)
def test_filter_slice_and_shard_choose(choice: Choice, chosen: str) -> None:
    assert "".join(task.id for task in choose(tasks(*"abcdef"), choice)) == chosen


def test_shuffling_is_repeatable_and_shards_are_parts_of_one_order() -> None:
    whole = [task.id for task in choose(tasks(*"abcdef"), Choice(shuffle=True, seed=3))]
    parts = [[t.id for t in choose(tasks(*"abcdef"), Choice(shuffle=True, seed=3, shard=f"{i}/2"))] for i in (1, 2)]
    assert sorted(whole) == list("abcdef") != whole
    assert parts == [whole[0::2], whole[1::2]]


@pytest.mark.parametrize("choice", [Choice(filter="("), Choice(slice="a"), Choice(shard="3/2"), Choice(shard="0/2")])
def test_an_expression_that_cannot_be_read_is_an_error(choice: Choice) -> None:
    with pytest.raises(ConfigError, match=r"^--(filter|slice|shard): "):
        choose(tasks("a"), choice)
