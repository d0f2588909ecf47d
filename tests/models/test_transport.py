import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import httpx
import pytest
from httpcore._synchronization import ThreadLock
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import raises_model_error, request
from tests.fake_provider import FakeProvider
from tests.faults import Fault
from tinyagent.models.client import WireModel, connect
from tinyagent.models.transport import Event, HttpTransport, connection_error, ndjson_events, sse_events
from tinyagent.models.watch import Timeouts
from tinyagent.models.wire import WireOptions

SHORT = Timeouts(connect_s=2.0, first_byte_s=1.0, idle_s=0.4)
LONG_TEXT = "word " * 40


OPTIONS = WireOptions("openai", "m")


@contextmanager
def served(*replies: str, fault: Fault | str | None = None) -> Iterator[tuple[FakeProvider, WireModel]]:
    """A server that plays the replies, with a fault at its first request, and a model that talks to it."""
    with FakeProvider(replies or ("Done.",), faults={1: fault} if fault else {}) as server:
        model = connect("test/m", OPTIONS, base_url=server.base_url("openai"), timeouts=SHORT)
        with closing(model):
            yield server, model


def test_pings_hold_the_line_and_silence_after_them_ends_it() -> None:
    """R38 claude-code 2.1.222, 2.1.232."""
    with served(fault=Fault(pings=8, silent=True)) as (_, model):
        started = time.monotonic()
        with raises_model_error("network") as caught:
            model.complete(request())
        assert "silent for 0.4 s" in str(caught.value)
        assert time.monotonic() - started > 0.8


def test_a_first_byte_may_take_longer_than_a_pause_later() -> None:
    with served(fault=Fault(first_byte_s=0.6)) as (_, model):
        assert model.complete(request()).message.text == "Done."


def test_no_first_byte_in_time_is_a_network_error_that_may_have_been_billed() -> None:
    with served(fault=Fault(first_byte_s=1.5)) as (_, model), raises_model_error("network") as caught:
        model.complete(request())
    assert caught.value.billed


def test_the_whole_round_has_a_limit_even_while_it_streams() -> None:
    with served(LONG_TEXT, fault=Fault(frame_s=0.1)) as (_, model):
        started = time.monotonic()
        with raises_model_error("network") as caught:
            model.complete(request(), timeout_s=0.5)
        assert "time limit" in str(caught.value)
        assert time.monotonic() - started < 1.0


def test_an_unreachable_server_is_a_network_error_that_cost_nothing() -> None:
    with FakeProvider() as server:
        address = server.base_url("openai")
    with raises_model_error("network") as caught:
        connect("test/m", OPTIONS, base_url=address).complete(request())
    assert not caught.value.billed
    assert address in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8080/v1", "ftp://127.0.0.1/v1", "http://[::1", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_not_tried_again(address: str) -> None:
    with raises_model_error("bad_request"):
        connect("test/m", OPTIONS, base_url=address).complete(request())


def test_a_server_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    failed = httpx.ConnectError("certificate verify failed")
    failed.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    assert connection_error(failed, "https://localhost").kind == "bad_request"


def test_an_interrupt_closes_the_connection_so_that_the_server_stops_generating() -> None:
    """A real llama.cpp cancels a streaming request whose client goes away."""

    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with served(LONG_TEXT, fault=Fault(frame_s=0.02)) as (server, model):
        with pytest.raises(KeyboardInterrupt):
            model.complete(request(), on_text=interrupt)
        assert server.gone_within(2.0)


def test_a_redirect_is_not_followed_with_the_key() -> None:
    with served(fault="redirect") as (_, model), raises_model_error("not_found") as caught:
        model.complete(request())
    assert "redirects to http://127.0.0.1:1/elsewhere" in str(caught.value)


def test_a_connection_is_used_again() -> None:
    with served("one", "two", "three") as (server, model):
        for _ in range(3):
            model.complete(request())
        assert server.connections == 1


def test_a_kept_connection_that_the_server_closed_is_replaced_at_once() -> None:
    with FakeProvider(["one", "two"], faults={2: "reset"}) as server:
        with closing(connect("test/m", OPTIONS, base_url=server.base_url("openai"), timeouts=SHORT)) as model:
            assert [model.complete(request()).message.text for _ in range(2)] == ["one", "two"]
        assert (len(server.requests), server.connections) == (3, 2)


def test_one_thread_watches_all_rounds_and_ends_with_the_transport() -> None:
    def watching() -> int:
        return sum(thread.name == "tinyagent-watch" for thread in threading.enumerate())

    with served() as (_, model):
        for _ in range(3):
            model.complete(request())
        assert watching() == 1
    assert watching() == 0


def test_silence_is_noticed_in_each_of_several_rounds() -> None:
    """The thread that watches has gone to sleep for the limit of an earlier round, or for none."""
    silent = Fault(pings=1, silent=True)
    with (
        FakeProvider(["one", "two", "three", "four"], faults={2: silent, 4: silent}) as server,
        closing(connect("test/m", OPTIONS, base_url=server.base_url("openai"), timeouts=SHORT)) as model,
    ):
        for _ in range(2):
            model.complete(request())
            with raises_model_error("network") as caught:
                model.complete(request())
            assert "silent for 0.4 s" in str(caught.value)


def test_a_huge_error_body_is_read_in_part() -> None:
    fault = Fault(500, body="busy " * 1_000_000)
    with served(fault=fault) as (_, model), raises_model_error("overloaded") as caught:
        model.complete(request())
    assert len(str(caught.value)) < 2000


def test_headers_of_the_user_win() -> None:
    with FakeProvider() as server:
        own = {"Authorization": "Basic x", "X-Team": "a"}
        address = server.base_url("openai")
        with closing(connect("t/m", OPTIONS, base_url=address, api_key="k", headers=own)) as model:
            model.complete(request())
        assert server.requests[0].headers["authorization"] == "Basic x"
        assert server.requests[0].headers["x-team"] == "a"


def test_a_proxy_of_the_environment_is_not_asked_for_a_local_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with served() as (_, model):
        assert model.complete(request()).message.text == "Done."


def test_nothing_is_opened_before_the_first_request() -> None:
    transport = HttpTransport("https://api.example", headers={})
    transport.close()


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        yield data[start : start + size]
        start += size
    yield data[start:]


@given(st.lists(st.integers(1, 9), max_size=20))
def test_events_do_not_depend_on_how_the_bytes_are_cut(sizes: list[int]) -> None:
    data = ': ping\r\n\r\nevent: a\ndata: {"x":\ndata: "é"}\n\ndata: [DONE]\n\nid: 7\n\n'.encode()
    assert list(sse_events(pieces(data, sizes))) == [Event("a", '{"x":\n"é"}'), Event("message", "[DONE]")]


@given(st.lists(st.integers(1, 9), max_size=20))
def test_lines_do_not_depend_on_how_the_bytes_are_cut(sizes: list[int]) -> None:
    data = '{"a": "é"}\n\n{"b": "\u2028"}\n{"c": 1}'.encode()
    assert [event.data for event in ndjson_events(pieces(data, sizes))] == ['{"a": "é"}', '{"b": "\u2028"}', '{"c": 1}']


def test_an_interrupt_inside_a_lock_of_the_http_library_does_not_block_the_end() -> None:
    """Found here: after a second Ctrl-C a run hung for ever in the close of the connection pool."""
    lines = 0

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line" and frame.f_code is ThreadLock.__enter__.__code__
        if lines == 2:  # the lock is taken, and the `with` does not know it yet
            raise KeyboardInterrupt
        return interrupt

    with FakeProvider() as server:
        model = connect("test/m", OPTIONS, base_url=server.base_url("openai"), timeouts=SHORT)
        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                model.complete(request())
        finally:
            sys.settrace(before)
        end = threading.Thread(target=model.close, daemon=True)
        end.start()
        end.join(10)
        assert not end.is_alive()
        assert model.complete(request()).message.text == "Done."
        model.close()
