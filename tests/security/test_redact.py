"""Keys are taken out, everything else stays."""

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.security.redact import Redactor

HEX = "0123456789abcdef"
KEYS = {
    "anthropic": "sk-ant-api03-Abc_123-XyZ456789012345",
    "openai": "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl",
    "github": "ghp_0123456789abcdefABCDEF0123456789abcd",
    "gitlab": "glpat-Ab12Cd34Ef56Gh78Ij90",
    "aws": "AKIA0123456789ABCDEF",
    "google": "AIza" + "Ab1-_" * 7,
    "slack": "xoxb-123456789012-abcdef",
    "huggingface": "hf_" + "aB3" * 12,
    "stripe": "sk_live_0123456789abcdefgh",
    "jwt": "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + "MIIEow+/" * 20
    + "\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("form", ["{}", "key={} ", "x: '{}',", '{{"k": "{}"}}', "a\n{}\nb", "({})."])
def test_common_keys_are_redacted_in_any_surrounding(kind: str, form: str):
    """S41 DeepSeek-Reasonix#6178."""
    assert Redactor().text(form.format(KEYS[kind])) == form.format(f"[redacted:{kind}]")


def test_a_private_key_inside_json_is_redacted():
    text = json.dumps({"key": KEYS["private-key"]})
    assert Redactor().text(text) == '{"key": "[redacted:private-key]"}'


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("https://user:hunter2@host/x", "https://user:[redacted:password]@host/x"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted:authorization]"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [redacted:authorization]"'),
        ("aws_secret_access_key = " + "aB3/" * 10, "aws_secret_access_key = [redacted:aws]"),
    ],
)
def test_keys_known_by_their_surrounding_are_redacted(text: str, redacted: str):
    """S43: credentials in URLs and headers."""
    assert Redactor().text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "commit " + HEX * 2 + "01234567",
        "sha256:" + HEX * 4,
        "id 123e4567-e89b-12d3-a456-426614174000",
        'class="sk-folding-cube sk-spinner-chasing-dots-wrapper"',
        'openai_key = os.environ["OPENAI_API_KEY"]',
        "Authorization: Bearer YOUR_ACCESS_TOKEN",
        'f"https://{user}:{password}@{host}"',
        "postgres://postgres:postgres@localhost/db",
        "http://localhost:8080/@scope/pkg",
        'if "-----BEGIN PRIVATE KEY-----" in text: return True',
        "risk-based task-1234567890-abcdefghijk",
        "data:image/png;base64," + "iVBORw0KGgo" * 20,
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_code_hashes_and_placeholders_stay(text: str):
    """A 40 hex digit commit id must stay readable."""
    assert Redactor().text(text) == text


def test_exact_keys_in_use_are_redacted_whatever_they_look_like():
    redactor = Redactor(["plainvalue", "with/slash+plus", "short"])
    assert redactor.text("a plainvalue with%2Fslash%2Bplus short") == "a [redacted:key] [redacted:key] short"


def test_the_longer_of_two_keys_wins():
    assert Redactor(["abcdefgh", "abcdefgh-long"]).text("abcdefgh-long") == "[redacted:key]"


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *KEYS.values(),
                "sk-",
                "://",
                "u:",
                "@",
                "[redacted:",
                "key",
                "eyJ",
                "-----BEGIN PRIVATE KEY-----",
                "knownvalue",
            ]
        ),
        st.text(st.sampled_from("aA1_-./:@=[] \n\"'é"), max_size=30),
    ),
    max_size=12,
).map("".join)


@given(pieces)
def test_redacting_twice_changes_nothing_more(text: str):
    redactor = Redactor(["knownvalue", "redacted", "[redacted:key"])
    once = redactor.text(text)
    assert redactor.text(once) == once


@given(pieces, st.integers(1, 40))
def test_a_stream_is_redacted_like_a_text(text: str, block: int):
    redactor = Redactor(["knownvalue"])
    target = io.BytesIO()
    redactor.stream(io.BytesIO(text.encode()), target, block=block, overlap=2_000)
    assert target.getvalue().decode() == redactor.text(text)


def test_a_key_and_the_words_it_is_known_by_are_not_parted_by_a_block():
    text = "x" * 90 + "\nAuthorization: Bearer\n abc.def-123456\n" + "y" * 60
    target = io.BytesIO()
    Redactor().stream(io.BytesIO(text.encode()), target, block=10, overlap=70)
    assert target.getvalue().decode() == text.replace("abc.def-123456", "[redacted:authorization]")


def test_a_long_stream_keeps_its_bytes_and_loses_its_keys():
    line = b"caf\xe9 " + b"x" * 90 + b"\n"
    data = line * 3_000 + KEYS["github"].encode() + b"\n" + line * 3_000
    target = io.BytesIO()
    Redactor().stream(io.BytesIO(data), target, block=4_096, overlap=512)
    assert target.getvalue() == line * 3_000 + b"[redacted:github]\n" + line * 3_000


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "sk-a1",
        "eyJ",
        "eyJaaaaaaaaa.",
        "://",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n" + "A" * 40 + "-",
        "authorization: bearer ",
        "AKIA",
        "a",
        "ghp_",
        "xoxb-",
        "aws_secret_access_key=",
        "eyJaaaaaaaaa.eyJ",
        "-",
        " ",
    ],
)
def test_hostile_text_takes_linear_time(unit: str):
    text = unit * (2_000_000 // len(unit))
    started = time.perf_counter()
    Redactor(["knownvalue"]).text(text)
    assert time.perf_counter() - started < 3
