"""The bounded copy of an output."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tinyagent.sandboxes.capture import Capture

texts = st.text(st.sampled_from("aé汉😀\n"), max_size=400)
sizes = st.lists(st.integers(1, 50), min_size=1, max_size=20)


def chunks(data: bytes, lengths: list[int]) -> list[bytes]:
    parts: list[bytes] = []
    while data:
        length = lengths[len(parts) % len(lengths)]
        parts.append(data[:length])
        data = data[length:]
    return parts


def captured(parts: list[bytes], max_bytes: int, *, spool: Path | None = None, spool_cap: int = 1_000_000) -> Capture:
    with Capture(max_bytes, spool=spool, spool_cap=spool_cap) as capture:
        for part in parts:
            capture.add(part)
    return capture


@given(texts, sizes)
def test_what_fits_is_kept_whole_however_it_arrives(text: str, lengths: list[int]):
    """R14: decoding chunk by chunk tore characters apart."""
    assert captured(chunks(text.encode(), lengths), 2_000).text() == text


@given(texts, sizes, st.integers(0, 500))
def test_what_does_not_fit_is_a_head_a_count_and_a_tail(text: str, lengths: list[int], max_bytes: int):
    data = text.encode()
    shown = captured(chunks(data, lengths), max_bytes).text()
    if len(data) <= max_bytes:
        assert shown == text
        return
    head, marker, tail = shown.partition("\n[... ")
    count, _, tail = tail.partition(f" of {len(data)} bytes left out ...]\n")
    assert marker
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(count) == len(data) - len((head + tail).encode())
    assert len(shown.encode()) <= max(max_bytes, 80)


def test_a_spool_over_its_cap_has_the_head_a_note_and_the_tail(tmp_path: Path):
    spool = tmp_path / "spool"
    captured([b"a" * 600, b"b" * 600, b"z" * 40], 100, spool=spool, spool_cap=1_000)
    data = spool.read_bytes()
    assert data.startswith(b"a" * 600 + b"b" * 400 + b"\n[... 190 of 1240 bytes left out ...]\n")
    assert data.endswith(b"b" * 10 + b"z" * 40)


def test_a_spool_a_little_over_its_cap_is_whole(tmp_path: Path):
    spool = tmp_path / "spool"
    captured([b"a" * 1_000, b"z" * 40], 100, spool=spool, spool_cap=1_000)
    assert spool.read_bytes() == b"a" * 1_000 + b"z" * 40


@given(texts, sizes)
def test_a_spool_has_every_byte_of_what_does_not_fit_and_is_not_made_for_the_rest(text: str, lengths: list[int]):
    with TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        captured(chunks(text.encode(), lengths), 200, spool=spool)
        whole = text.encode() if len(text.encode()) > 200 else None
        assert (spool.read_bytes() if spool.exists() else None) == whole


def test_a_full_disk_is_told_and_harmless():
    capture = captured([b"x" * 200], 100, spool=Path("/dev/full"))
    assert capture.text().startswith("x" * 10)
    assert "\n[the full output could not be written to a file: " in capture.text()


def test_a_spool_does_not_follow_a_link(tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("untouched")
    (tmp_path / "spool").symlink_to(target)
    captured([b"x" * 200], 100, spool=tmp_path / "spool")
    assert target.read_text() == "untouched"
