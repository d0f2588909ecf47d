"""The tools `read`, `write` and `edit` on real files."""

import hashlib
import os
import socket

import pytest

from tinyagent.tools.disk import MAX_FILE_BYTES


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_is_read_with_its_size_and_without_numbers(room):
    (room.root / "a.py").write_text("one\n\ntwo\n")
    message = room.call("read", path="a.py")
    assert message.text == "[a.py, 3 lines]\none\n\ntwo"
    assert message.facts == {
        "path": "a.py",
        "first_line": 1,
        "last_line": 3,
        "digest": digest(b"one\n\ntwo\n"),
        "output_chars": 24,
    }


def test_a_part_says_where_to_go_on(room):
    (room.root / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 101)))
    message = room.call("read", path="a.txt", offset=11, limit=2)
    assert message.text == "[a.txt, lines 11-12 of 100]\n11\n12\n[go on with offset=13]"
    assert (message.facts.get("first_line"), message.facts.get("last_line")) == (11, 12)


def test_a_long_file_is_read_in_parts_that_join_without_a_gap(room):
    lines = [f"line number {n} of many" for n in range(1, 2_001)]
    (room.root / "a.txt").write_text("\n".join(lines) + "\n")
    read, offset = [], 1
    while offset <= 2_000:
        message = room.call("read", path="a.txt", offset=offset)
        assert len(message.text) <= 10_000
        assert message.output_id == ""
        read += message.text.split("\n")[1 : 2 + message.facts["last_line"] - offset]
        offset = message.facts["last_line"] + 1
    assert read == lines


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "[f, 0 lines]"),
        (b"a\r\nb", "[f, 2 lines, CRLF, no line end at the end]\na\nb"),
        (b"a\rb\r", "[f, 2 lines, CR line ends]\na\nb"),
        ("é\n".encode("latin-1"), "[f, 1 line, latin-1]\né"),
        ("\ufeffé\n".encode("utf-16-le"), "[f, 1 line, utf-16-le with BOM]\né"),
        (b"x" * 3_000 + b"\n", f"[f, 1 line]\n{'x' * 2_000} [... 1,000 more characters in this line]"),
    ],
)
def test_unusual_files_are_shown_and_named(room, data, text):
    """R58: encodings and line ends."""
    (room.root / "f").write_bytes(data)
    assert room.call("read", path="f").text == text


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "a.png is a PNG image, 9 bytes: it cannot be shown as text."),
        ("a.bin", b"\0" * 10, "a.bin is binary"),
        ("a.so", b"\x7fELF\0", "an ELF program"),
    ],
)
def test_binary_files_are_named_not_shown(room, name, data, words):
    (room.root / name).write_bytes(data)
    message = room.call("read", path=name)
    assert message.is_error
    assert words in message.text


@pytest.mark.parametrize(
    "path", ["fifo", "socket", "/dev/zero", "loop", "sparse", "missing", "a\0b", "\ud83d", "x" * 9_999, ""]
)
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_what_is_no_readable_file_is_refused_at_once(room, tool, path):
    """S49 claude-code (FIFO, device, 5 GB sparse file), R62 link cycle, R56 odd paths."""
    os.mkfifo(room.root / "fifo")
    (room.root / "loop").symlink_to("loop")
    with (room.root / "sparse").open("wb") as file:
        file.truncate(5_000_000_000)
    arguments = {"read": {}, "write": {"content": "x"}, "edit": {"old": "a", "new": "b"}}[tool]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(room.root / "socket"))
        message = room.call(tool, path=path, **arguments)
    if (tool, path) == ("write", "missing"):
        assert (room.root / "missing").read_text() == "x"
    else:
        assert message.is_error
        assert len(message.text) < 500
    assert room.crashes == []


def test_the_largest_file_is_read_with_a_bounded_result(room):
    """S49: a 200 MB single line and the like."""
    (room.root / "line").write_bytes(b"x" * MAX_FILE_BYTES)
    (room.root / "more").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    assert len(room.call("read", path="line").text) < 3_000
    assert room.call("read", path="more").is_error


def test_a_folder_is_listed_sorted_with_folders_marked(room):
    (room.root / "src").mkdir()
    for name in ("b.py", "a b.py", "-n", "$(touch MARK)", "'q'"):
        (room.root / name).touch()
    message = room.call("read", path=".")
    assert message.text.split("\n") == [
        "[. is a folder, entries: 6]",
        *sorted(["$(touch MARK)", "'q'", "-n", "a b.py", "b.py", "src/"]),
    ]
    assert not (room.root / "MARK").exists()


def test_a_folder_name_is_never_run_as_a_command(room):
    """S31: a shell template with data."""
    (room.root / "'; touch MARK; '").mkdir()
    assert "entries: 0" in room.call("read", path="'; touch MARK; '").text
    assert room.call("read", path="$(touch MARK)").is_error
    assert [path.name for path in room.root.iterdir()] == ["'; touch MARK; '"]


def test_a_large_folder_is_listed_in_part(room):
    """R62: bounded time and size."""
    for number in range(600):
        (room.root / f"file{number:03}").touch()
    message = room.call("read", path=str(room.root))
    assert message.text.startswith("[. is a folder, entries: the first 500 of more]\nfile000\n")
    assert "file499" in message.text
    assert "file500" not in message.text


def test_a_new_file_is_written_with_its_parents(room):
    message = room.call("write", path="a/b/c.txt", content="é\n")
    assert (room.root / "a/b/c.txt").read_bytes() == "é\n".encode()
    assert message.text == "created a/b/c.txt: 1 line, 3 bytes"
    assert message.facts.get("digest") == digest("é\n".encode())
    assert message.facts.get("changed") is True


def test_a_file_that_was_not_read_is_not_overwritten(room):
    (room.root / "a.txt").write_text("mine\n")
    message = room.call("write", path="a.txt", content="yours\n")
    assert "you have not read it: read it first" in message.text
    assert (room.root / "a.txt").read_text() == "mine\n"
    room.call("read", path="./a.txt")
    assert not room.call("write", path=str(room.root / "a.txt"), content="yours\n").is_error


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_a_file_that_changed_since_it_was_read_is_left_alone(room, tool):
    """R61: fails, asks to re-read."""
    (room.root / "a.txt").write_text("one\n")
    room.call("read", path="a.txt")
    room.call("bash", command="echo two >> a.txt")
    arguments = {"write": {"content": "x"}, "edit": {"old": "one", "new": "x"}}[tool]
    message = room.call(tool, path="a.txt", **arguments)
    assert message.text == "a.txt has changed since you last read it: read it again first."
    assert (room.root / "a.txt").read_text() == "one\ntwo\n"
    room.call("read", path="a.txt")
    assert not room.call(tool, path="a.txt", **arguments).is_error


def test_own_changes_need_no_new_read(room):
    room.call("write", path="a.txt", content="one\n")
    assert not room.call("edit", path="a.txt", old="one", new="two").is_error
    assert not room.call("edit", path="a.txt", old="two", new="three").is_error
    assert not room.call("write", path="a.txt", content="four\n").is_error


def test_writing_what_is_there_already_changes_nothing(room):
    (room.root / "a.txt").write_text("same\n")
    message = room.call("write", path="a.txt", content="same\n")
    assert message.facts.get("changed") is False
    assert "already" in message.text


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xff\xfea\0", "b", b"\xff\xfeb\0"),
        (b"\xe9\n", "\u00fc\n", b"\xfc\n"),
        (b"\xe9\n", "\u6f22\n", "\u6f22\n".encode()),
        (b"a\nb\r\n", "c\n", b"c\n"),
    ],
)
def test_a_replaced_file_keeps_its_line_ends_and_encoding(room, before, content, after):
    """R58, R59 mistral-vibe#674."""
    (room.root / "f").write_bytes(before)
    room.call("read", path="f")
    room.call("write", path="f", content=content)
    assert (room.root / "f").read_bytes() == after


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("final", [True, False])
def test_an_edit_leaves_every_other_byte_equal(room, codec, end, final):
    """R58 openclaw#116011, mcp-file-tools#24, opencode#9443, claurst#225; R59."""
    mark = "\ufeff" if codec == "utf-16-be" else ""
    text = mark + "".join(f"é line {n}{stop}" for n, stop in enumerate([end, "\n", end, "\r\n", end])).rstrip("\r\n")
    text += end if final else ""
    (room.root / "f").write_bytes(text.encode(codec))
    message = room.call("edit", path="f", old="é line 2\né line 3", new="é line 2\nü changed")
    assert not message.is_error, message.text
    assert (room.root / "f").read_bytes() == text.replace("é line 3", "ü changed").encode(codec)
    assert message.facts.get("digest") == digest((room.root / "f").read_bytes())


def test_an_edit_keeps_the_mode_of_the_file(room):
    (room.root / "run.sh").write_text("#!/bin/sh\n")
    (room.root / "run.sh").chmod(0o755)
    room.call("edit", path="run.sh", old="sh\n", new="sh\necho\n")
    assert (room.root / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("data", "old", "new", "words"),
    [
        (b"\xe9\n", "é", "漢", "U+6F22 cannot be written in latin-1"),
        (b"a\n", "a", "\ud83d", "U+D83D cannot be written in utf-8"),
        (b"a\0", "a", "b", "only text can be edited"),
        (b"a\na\n", "a", "b", "occurs 2 times"),
        (b"a\n", "zzz", "b", "`old` was not found"),
    ],
)
def test_an_edit_that_cannot_be_done_leaves_the_file_alone(room, data, old, new, words):
    (room.root / "f").write_bytes(data)
    message = room.call("edit", path="f", old=old, new=new)
    assert words in message.text
    assert message.is_error
    assert (room.root / "f").read_bytes() == data


def test_an_edit_shows_what_it_did(room):
    (room.root / "a.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    message = room.call("edit", path="a.py", old="return 2", new="return 3")
    assert message.text == "edited a.py, line 6\n@@ -5,2 +5,2 @@\n def g():\n-    return 2\n+    return 3"
