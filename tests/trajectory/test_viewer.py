"""The HTML page of a run: complete in itself, true to the run, and deaf to whatever the run's texts try."""

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from tests.trajectory.generators import Builder, runs
from tests.trajectory.viewer_browser import Browser, browser
from tests.trajectory.viewer_data import large_run, realistic_run
from tests.trajectory.viewer_hostile import hostile_run, payloads
from tinyagent.core.errors import RecordError
from tinyagent.core.events import Compacted, MessageAdded, ModelCalled, Record
from tinyagent.core.types import AssistantMessage, ToolMessage
from tinyagent.trajectory.replay import Sent, requests
from tinyagent.trajectory.viewer.contents import contents
from tinyagent.trajectory.viewer.page import render_html

OWN_ELEMENTS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "noscript",
        "body",
        "header",
        "main",
        "nav",
        "section",
        "div",
    ),
    *("h1", "h2", "p", "pre", "code", "kbd", "b", "strong", "span", "ul", "li", "dl", "dt", "dd", "details", "summary"),
    *("button", "input", "label", "form", "dialog", "svg", "rect", "path", "line", "text"),
}


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and the texts of its scripts by their ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data


# --- what the file is ---


def test_the_page_refers_to_nothing_outside_of_itself() -> None:
    parsed = Parsed(render_html(realistic_run(steps=3)))
    names = {name for _, attributes in parsed.elements for name in attributes}
    assert not names & {"src", "href", "srcset", "action", "data", "style", "background", "ping", "poster"}
    assert not re.search(
        r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", parsed.texts["style"] + parsed.texts["script"]
    )


def test_the_policy_allows_this_one_program_and_style_and_nothing_else() -> None:
    parsed = Parsed(render_html(realistic_run(steps=3)))
    policy = next(a["content"] or "" for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parsed.texts[name].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_no_text_of_a_run_becomes_part_of_the_pages_markup() -> None:
    plain, hostile = (Parsed(render_html(run)) for run in (realistic_run(), hostile_run("http://127.0.0.1:9")))
    assert Counter(tag for tag, _ in hostile.elements if tag != "script") == Counter(
        tag for tag, _ in plain.elements if tag != "script"
    )
    assert [a for tag, a in hostile.elements if tag == "script" and a.get("type") != "application/json"] == [{}]
    assert hostile.texts["script"] == plain.texts["script"]


@given(runs())
@settings(max_examples=30, deadline=None)
def test_every_message_stands_in_the_page_whole(records: list[Record]) -> None:
    page = render_html(records).encode("utf-8").decode("utf-8")
    texts = Parsed(page).texts
    items = [item for name, text in texts.items() if re.fullmatch(r"d\d+", name) for item in json.loads(text)["items"]]
    added = [record.event.message for record in records if isinstance(record.event, MessageAdded)]
    shown = {item["id"]: item.get("text", "") for item in items if "id" in item}
    assert shown == {number: message.text for number, message in enumerate(added, 1)}


def test_the_index_has_the_figures_of_every_request_and_pass() -> None:
    records = realistic_run()
    index = contents(records).index
    calls = [record.event for record in records if isinstance(record.event, ModelCalled)]
    assert [row["size"] for row in index["requests"]] == [
        c.usage.input_tokens if c.usage else c.estimate for c in calls
    ]
    assert [row.get("cost", 0) for row in index["requests"]] == [call.cost_usd for call in calls]
    passes = [record.event for record in records if isinstance(record.event, Compacted)]
    assert [(row["before"], row["after"]) for row in index["passes"]] == [
        (p.tokens_before, p.tokens_after) for p in passes
    ]
    assert index["limits"] == [{"from": 1, "window": 32_768, "trigger": 26_214}]


def test_records_without_a_start_are_refused() -> None:
    with pytest.raises(RecordError, match="not the start of a run"):
        render_html(realistic_run(steps=2)[1:])


# --- in a real browser ---


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        opened.size(1280, 900)
        yield opened


@pytest.fixture
def trap() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and the paths that anybody asked it for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def opened(window: Browser, folder: Path, records: list[Record], place: str = "") -> Browser:
    page = folder / "run.html"
    page.write_text(render_html(records), encoding="utf-8")
    window.open(page, place)
    window.wait("return document.querySelectorAll('#pane .filled').length > 0")
    return window


def ask_for_request(window: Browser, number: int) -> None:
    window.script(
        "const box = document.getElementById('request'); document.getElementById('mode-sent').click();"
        "box.value = arguments[0]; box.dispatchEvent(new Event('change'))",
        number,
    )


LOOK_AT_ALL = """
for (const fold of document.querySelectorAll('details:not([open])')) fold.open = true;
const folded = [...document.querySelectorAll('.unfold')].filter((button) => button.textContent.startsWith('show all'));
for (const button of folded) button.click();
"""


def test_nothing_of_a_hostile_run_runs_or_loads(window: Browser, tmp_path: Path, trap: tuple[str, list[str]]) -> None:
    address, asked = trap
    opened(window, tmp_path, hostile_run(address))
    sections = window.script("return document.querySelectorAll('#pane > section').length")
    for number in range(0, sections, 3):
        window.script("document.getElementById('s' + arguments[0]).scrollIntoView()", number)
        window.wait(f"return document.getElementById('s{number}').classList.contains('filled')")
        window.script(LOOK_AT_ALL)
    for number in (1, 40, 55, 60):
        ask_for_request(window, number)
        window.script(LOOK_AT_ALL)
    window.keys("g/<img src")
    window.wait("return document.getElementById('found').textContent.startsWith('in ')")
    assert window.script("return [window.pwned, parent.pwned, Object.prototype.pwned]") == [None, None, None]
    assert asked == []
    assert window.complaints() == []
    elements = window.script("return [...new Set([...document.querySelectorAll('*')].map((e) => e.localName))]")
    assert set(elements) <= OWN_ELEMENTS
    assert window.script("return location.pathname.split('/').pop()") == "run.html"


def test_a_script_or_image_that_got_into_the_page_would_be_stopped(
    window: Browser, tmp_path: Path, trap: tuple[str, list[str]]
) -> None:
    address, asked = trap
    opened(window, tmp_path, realistic_run(steps=2))
    for markup in payloads(address)[:8]:
        refused = window.script("try { document.body.innerHTML = arguments[0] } catch (e) { return e.name }", markup)
        assert refused == "TypeError"
    window.script(
        "new Image().src = arguments[0]; fetch(arguments[0]).catch(() => 0); document.body.append("
        "Object.assign(document.createElement('iframe'), { src: arguments[0] }))",
        address,
    )
    assert window.wait("return document.querySelector('iframe') !== null")
    assert window.script("return window.pwned") is None
    assert asked == []
    assert any("Content Security Policy" in words for words in window.complaints())


def test_what_hides_in_a_text_is_made_visible(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, hostile_run("http://127.0.0.1:9"))
    window.script(LOOK_AT_ALL)
    shown = window.script("return ['head', 'list', 'pane'].map((id) => document.getElementById(id).textContent).join()")
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u200b\ufeff\x1b\x00\U000e0000-\U000e007f]", shown)
    assert "⟨U+202E⟩ltr" in shown


class Marked(Builder):
    """Runs whose every text is another one, so that each can be found again in the page."""

    marks = 0

    def _text(self) -> str:
        self.marks += 1
        return f"text-{self.marks}-"


def marks_of(sent: Sent) -> Counter[str]:
    texts: list[str] = [sent.request.system]
    for message in sent.request.messages:
        texts.append(message.text)
        if isinstance(message, AssistantMessage):
            texts += [call.raw if call.arguments is None else call.arguments["command"] for call in message.tool_calls]
    return Counter(mark for text in texts for mark in re.findall(r"text-\d+-|\[output elided: \d+ chars\]", text))


@pytest.mark.parametrize("seed", range(6))
def test_as_sent_shows_what_each_request_held_and_nothing_else(window: Browser, tmp_path: Path, seed: int) -> None:
    records = Marked(Random(seed)).build(7)
    window.command("Emulation.setDeviceMetricsOverride", width=1200, height=9000, deviceScaleFactor=1, mobile=False)
    opened(window, tmp_path, records)
    for sent in requests(records):
        ask_for_request(window, sent.number)
        window.wait("return document.querySelectorAll('#pane > section:not(.filled)').length === 0")
        window.script("for (const f of document.querySelectorAll('.system > details:first-child')) f.open = true")
        window.wait("return !document.querySelector('.system > details:first-child:not(:has(.inside))')")
        text = window.script("return document.getElementById('pane').textContent")
        assert Counter(re.findall(r"text-\d+-|\[output elided: \d+ chars\]", text)) == marks_of(sent), sent.number
    window.command("Emulation.clearDeviceMetricsOverride")


def test_an_elided_output_is_folded_behind_what_stands_for_it(window: Browser, tmp_path: Path) -> None:
    records = realistic_run()
    first = next(r.event for r in records if isinstance(r.event, Compacted))
    messages = [r.event.message for r in records if isinstance(r.event, MessageAdded)]
    opened(window, tmp_path, records, "#request-45")
    window.wait("return document.querySelector('.elided details')")
    stub = window.script("return document.querySelector('.elided .output').textContent")
    oldest = min(first.elided)
    assert stub == first.replaced[oldest]
    window.script("document.querySelector('.elided details').open = true")
    original = window.wait("return document.querySelector('.elided details .output')?.textContent")
    assert messages[oldest - 1].text.startswith(original[:200])


def test_a_summarized_stretch_is_folded_where_it_was(window: Browser, tmp_path: Path) -> None:
    records = realistic_run()
    last = [r.event for r in records if isinstance(r.event, Compacted)][-1]
    opened(window, tmp_path, records, "#request-60")
    fold = window.wait("return document.querySelector('.gone summary')?.textContent")
    assert fold == f"Not sent: {len(last.summarized)} messages, summarized by compaction 2"
    summary = window.wait("return document.querySelector('.user.summary')?.textContent")
    assert "Apply the swap in rotate.py" in summary


def place(window: Browser) -> str:
    return window.script("return location.hash")


def test_keys_move_through_steps_requests_and_compactions(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run())
    seen: list[str] = []
    for key in "jjkcvjvGg":
        window.keys(key)
        seen.append(place(window))
    assert seen == [
        "#section-1", "#section-2", "#section-1", "#section-39", "#request-40", "#request-41", "#section-41",
        "#section-63", "#section-0",
    ]  # fmt: skip


def test_the_step_that_is_looked_at_is_marked_in_list_and_timeline(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run(), "#section-30")
    assert window.wait("return document.querySelector('.row[aria-current] .row-no')?.textContent") == "30"
    mark = float(window.script("return document.querySelector('.now').getAttribute('x')"))
    window.keys("j")
    assert float(window.script("return document.querySelector('.now').getAttribute('x')")) > mark


def test_a_click_into_the_timeline_goes_to_that_request(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run())
    window.script(
        "const box = document.getElementById('chart').getBoundingClientRect();"
        "document.getElementById('chart').dispatchEvent(new MouseEvent('click',"
        " { clientX: box.right - 14, clientY: box.top + 60, bubbles: true }))"
    )
    assert place(window) == "#section-62"


def test_search_lists_the_places_opens_what_is_folded_and_marks_the_words(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run())
    window.keys("/assertionerror: 99")
    number = int(window.wait("return /^in (\\d+) places/.exec(document.getElementById('found').textContent)?.[1]"))
    assert window.script("return document.querySelectorAll('#list .row').length") == number
    window.keys("\ue007")
    assert window.wait("return document.getElementById('found').textContent") == f"1 of {number}"
    assert window.wait("return CSS.highlights.get('found')?.size") >= 1
    where = window.script(
        "const [range] = CSS.highlights.get('found'); const box = range.getBoundingClientRect();"
        "return [range.toString(), box.top > 0 && box.bottom < innerHeight]"
    )
    assert where == ["AssertionError: 99", True]
    window.keys("\ue00c")
    assert window.wait(
        "return document.querySelectorAll('#list .row').length > arguments[0]".replace("arguments[0]", str(number))
    )


def test_a_large_run_puts_only_what_is_near_into_the_page(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, large_run(6, steps=800))
    window.keys("G")
    window.wait("return document.querySelector('#pane > section:last-child').classList.contains('filled')")
    for number in range(780, 500, -9):
        window.script("document.getElementById('s' + arguments[0]).scrollIntoView()", number)
    filled, elements, rows = window.script(
        "return [document.querySelectorAll('#pane .filled').length, document.querySelectorAll('#pane *').length,"
        " document.querySelectorAll('#list .row').length]"
    )
    assert 5 < filled <= 75
    assert elements < 800 + 75 * 40
    assert rows < 80


def test_a_very_long_output_grows_by_pieces(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, large_run(3, steps=2), "#section-1")
    sizes: list[int] = []
    for _ in range(3):
        window.script("document.querySelector('#s1 .unfold').click()")
        sizes.append(window.script("return document.querySelector('#s1 .output').textContent.length"))
    assert sizes == [200_000, 400_000, 600_000]


def test_dark_and_light_follow_the_system_and_the_button(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run(steps=2))
    paper = "return getComputedStyle(document.body).backgroundColor"
    found: list[str] = []
    for scheme in ("light", "dark"):
        window.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        found.append(window.script(paper))
    window.keys("t")
    assert found[0] != found[1]
    assert window.script(paper) == found[0]
    window.command("Emulation.setEmulatedMedia", features=[])


def test_a_narrow_window_has_no_sideways_scrolling(window: Browser, tmp_path: Path) -> None:
    window.command("Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=False)
    opened(window, tmp_path, realistic_run(steps=20))
    for number in (3, 12):
        window.script("document.getElementById('s' + arguments[0]).scrollIntoView()", number)
        window.wait(f"return document.getElementById('s{number}').classList.contains('filled')")
        assert window.script("return document.scrollingElement.scrollWidth <= innerWidth")
    window.script("document.getElementById('steps').click()")
    assert window.wait("return document.querySelectorAll('#list .row').length") > 10
    window.command("Emulation.clearDeviceMetricsOverride")


def test_on_paper_every_step_is_there(window: Browser, tmp_path: Path) -> None:
    opened(window, tmp_path, realistic_run(steps=30))
    window.script("window.dispatchEvent(new Event('beforeprint'))")
    assert window.script("return [...document.querySelectorAll('#pane > section')].every((s) => s.childElementCount)")
    pdf = base64.b64decode(window.command("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", pdf)) >= 5


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(lambda: realistic_run(steps=2)[:1], id="only a start"),
        pytest.param(lambda: realistic_run(steps=2)[:2], id="no request yet"),
        pytest.param(lambda: realistic_run(steps=40)[:-3], id="killed"),
    ],
)
def test_a_run_that_was_cut_off_opens_too(window: Browser, tmp_path: Path, records: Any) -> None:
    opened(window, tmp_path, records())
    window.keys("Gvvcj")
    assert "no end on record" in window.script("return document.getElementById('facts').textContent")
    assert window.complaints() == []


def test_a_result_without_its_call_is_shown(window: Browser, tmp_path: Path) -> None:
    records = realistic_run(steps=2)
    lost = Record(len(records) + 1, records[-1].time, MessageAdded(ToolMessage("nobody", "bash", "text-orphan"), 3))
    opened(window, tmp_path, [*records[:-1], lost], "#section-2")
    window.keys("G")
    assert window.wait("return document.getElementById('pane').textContent.includes('text-orphan')")
