"""Encodings, byte order marks and line ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.tools.encoding import decode, describe

MARKS = [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"]


@given(st.sampled_from(MARKS), st.binary(max_size=60))
def test_a_decoded_file_encodes_to_the_same_bytes(mark, body):
    file = decode(mark + body)
    assert file is None or file.encode(file.text) == mark + body


@pytest.mark.parametrize(
    ("data", "text", "codec"),
    [
        (b"", "", "utf-8"),
        ("h\u00e9\n".encode(), "h\u00e9\n", "utf-8"),
        (b"\xef\xbb\xbfhi", "hi", "utf-8"),
        ("h\u00e9\n".encode("latin-1"), "h\u00e9\n", "latin-1"),
        (b"\xff\xfeh\0i\0", "hi", "utf-16-le"),
        (b"\xfe\xff\0h\0i", "hi", "utf-16-be"),
        (b"\xff\xfe\0\0h\0\0\0", "h", "utf-32-le"),
    ],
)
def test_the_encoding_is_found(data, text, codec):
    file = decode(data)
    assert file is not None
    assert (file.text, file.codec) == (text, codec)


@pytest.mark.parametrize(
    "data", [b"a\0b", b"\x89PNG\r\n\x1a\n\0", b"\xff\xfea", bytes(range(1, 256)), b"\xff\xfe\0\xd8"]
)
def test_bytes_that_are_no_text_are_binary(data):
    assert decode(data) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a\nb\n", ""),
        (b"", ""),
        (b"a\r\nb\r\n", ", CRLF"),
        (b"a\rb\r", ", CR line ends"),
        (b"a\nb\r\n", ", mixed line ends"),
        (b"a\nb", ", no line end at the end"),
        (b"\xef\xbb\xbfa\n", ", utf-8 with BOM"),
        (b"\xe9\r\n", ", CRLF, latin-1"),
    ],
)
def test_only_what_is_unusual_is_told(data, words):
    file = decode(data)
    assert file is not None
    assert describe(file) == words
