"""Stored outputs."""

import stat

import pytest

from tinyagent.security.redact import Redactor
from tinyagent.tools.store import FileOutputStore

KEY = "hunter2"


def redact(text: str) -> str:
    return text.replace(KEY, "[secret]")


def test_a_stored_text_is_read_again_whole(tmp_path):
    store = FileOutputStore(tmp_path / "outputs")
    texts = ["", "a\r\nb\rc\n", "漢字 😀 \0", "x" * 100_000]
    assert [store.read(store.put(text)) for text in texts] == texts


def test_ids_are_short_and_go_on_after_a_resume(tmp_path):
    first, second = FileOutputStore(tmp_path), FileOutputStore(tmp_path)
    assert [first.put("a"), first.put("b"), second.put("c")] == ["o1", "o2", "o3"]
    assert FileOutputStore(tmp_path).read("o2") == "b"


def test_only_the_user_can_read_outputs(tmp_path):
    """S41: files 0600."""
    folder = tmp_path / "run" / "outputs"
    store = FileOutputStore(folder)
    store.put("a")
    spooled, path = store.new_path()
    path.write_text("b")
    store.publish(spooled, redact)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "output_id",
    [
        "",
        "o",
        "o0",
        "o01",
        "o2",
        "O1",
        " o1",
        "o1\n",
        "o1.txt",
        "../o1",
        "o1/../o1",
        "/etc/passwd",
        "o\u0661",
        "o1\0",
        "o" + "9" * 300,
    ],
)
def test_what_is_no_id_is_unknown(tmp_path, output_id):
    """S26: names from data used as paths."""
    store = FileOutputStore(tmp_path)
    store.put("a")
    with pytest.raises(KeyError):
        store.read(output_id)


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("key")
    store = FileOutputStore(tmp_path / "outputs")
    store.put("a")
    (tmp_path / "outputs" / "o2.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(KeyError):
        store.read("o2")


def test_a_spooled_output_is_unknown_until_its_secrets_are_out(tmp_path):
    """S41: no sink holds a key, whatever a kill leaves behind."""
    store = FileOutputStore(tmp_path)
    output_id, path = store.new_path()
    path.write_bytes(b"key " + KEY.encode() + b" \xff\n")
    with pytest.raises(KeyError):
        store.read(output_id)
    chars = store.publish(output_id, redact)
    assert store.read(output_id) == "key [secret] \ufffd\n"
    assert chars == len("key [secret] \ufffd\n")


def test_spools_that_a_kill_left_behind_are_removed_by_the_next_writer_only(tmp_path):
    _, path = FileOutputStore(tmp_path).new_path()
    path.write_text(KEY)
    reader, writer = FileOutputStore(tmp_path), FileOutputStore(tmp_path)
    with pytest.raises(KeyError):
        reader.read("o1")
    assert path.exists()
    writer.put("a")
    assert not path.exists()


def test_a_stream_redactor_takes_the_place_of_the_text_redactor(tmp_path):
    key = "ghp_" + "a1" * 18
    store = FileOutputStore(tmp_path)
    output_id, path = store.new_path()
    path.write_text(f"one {key}\n")
    store.publish(output_id, str.upper, redact_stream=Redactor().stream)
    assert store.read(output_id) == "one [redacted:github]\n"


def test_half_a_surrogate_pair_can_be_stored(tmp_path):
    store = FileOutputStore(tmp_path)
    assert store.read(store.put("a\ud83d")) == "a\\ud83d"


def test_an_output_that_was_never_cut_is_read_again_from_the_log(tmp_path):
    store = FileOutputStore(tmp_path / "outputs", logged={0: "zero", 7: "seven"}.get)
    assert (store.read("m7"), store.read("m0"), store.put("a")) == ("seven", "zero", "o1")
    assert stat.S_IMODE(store.path("m7").stat().st_mode) == 0o600


@pytest.mark.parametrize("output_id", ["m1", "m", "m07", "m-1", "m7/..", "../m7"])
def test_a_position_without_an_output_is_unknown(tmp_path, output_id):
    with pytest.raises(KeyError):
        FileOutputStore(tmp_path, logged={7: "seven"}.get).read(output_id)
    with pytest.raises(KeyError):
        FileOutputStore(tmp_path).read("m7")
