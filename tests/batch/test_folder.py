"""The folder of a batch: one driver, whole files, nothing outside."""

import json
from pathlib import Path

import pytest

from tinyagent.batch.folder import BatchFolder
from tinyagent.batch.status import Patch, Status, read_status, write_status
from tinyagent.core.errors import RecordError

ENDED = Status("a", 1, 1, "submitted", exit_status="Submitted", reason="submitted", exit_code=0, model="m")


@pytest.mark.parametrize("name", ["tasks", "tasks/a"])
def test_a_linked_folder_is_refused(tmp_path: Path, name: str) -> None:
    """S22: a link where our own folder should be."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError, match="is a link"), BatchFolder(tmp_path / "out") as folder:
        folder.job("a", 1)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RecordError, match="cannot be used for a batch"), BatchFolder(tmp_path / "file" / "out"):
        pass


def test_the_lock_is_free_after_the_driver(tmp_path: Path) -> None:
    for _ in range(2):
        with BatchFolder(tmp_path / "out"):
            assert (tmp_path / "out" / "batch.lock").read_text().startswith("process ")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": 7}', b"\xff\xfe"])
def test_a_status_that_cannot_be_read_is_none_so_that_the_task_runs_again(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "status.json").write_bytes(data)
    assert read_status(tmp_path) is None


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_status(tmp_path, ENDED)
    assert read_status(tmp_path) == ENDED
    assert json.loads((tmp_path / "status.json").read_bytes())["resolved"] is True


def test_derived_files_are_made_again_from_the_status_files(tmp_path: Path) -> None:
    """R70 mini: a kill in the write of the predictions lost every result."""
    with BatchFolder(tmp_path / "out") as folder:
        write_status(folder.job("a", 1), ENDED)
        (folder.job("a", 1) / "patch.diff").write_bytes("+ü\r\n".encode())
        (tmp_path / "out" / "results.jsonl").write_bytes(b'{"torn')
        (tmp_path / "out" / "preds.jsonl").write_bytes(b"\n\n")
        folder.derive([("a", 1), ("never started", 1)])
    assert len((tmp_path / "out" / "results.jsonl").read_bytes().splitlines()) == 1
    (line,) = (tmp_path / "out" / "preds.jsonl").read_bytes().splitlines()
    assert json.loads(line) == {"instance_id": "a", "model_name_or_path": "m", "model_patch": "+ü\r\n"}


def test_a_try_that_says_nothing_about_the_model_is_no_prediction(tmp_path: Path) -> None:
    with BatchFolder(tmp_path / "out") as folder:
        write_status(folder.job("a", 1), Status("a", 1, 1, "infrastructure", patch=Patch(3, True)))
        folder.derive([("a", 1)])
    assert (tmp_path / "out" / "preds.jsonl").read_bytes() == b""
