"""How quickly the HTML page of a long run is made, and shown by a real browser.

    python -m benchmarks.html_page [--megabytes 10] [--times 5]

The run has 2,000 steps with outputs that add up to so many megabytes. `first paint` is what the browser itself reports
(first-contentful-paint, from the start of the navigation), `loaded` its DOMContentLoaded; both are medians, from a file
on disk, each time in a fresh window. `search` is a search through all texts for a word that is in none. Needs Debian's
chromium and chromium-driver. Goal: first paint of 10 MB under 1 s.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.trajectory.viewer_browser import Browser, browser
from tests.trajectory.viewer_data import large_run
from tinyagent.trajectory.viewer.page import render_html

GOAL_MS = 1000
PAINT = """
const paint = performance.getEntriesByName('first-contentful-paint')[0];
const { domContentLoadedEventEnd: loaded } = performance.getEntriesByType('navigation')[0];
return paint && loaded ? [paint.startTime, loaded] : null;
"""
SEARCH = """
const box = document.getElementById('query');
box.value = 'a word that is in no text';
box.dispatchEvent(new Event('input'));
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    records = large_run(args.megabytes)
    before = time.process_time()
    page = render_html(records).encode("utf-8")
    print(f"made in {time.process_time() - before:.2f} s of CPU: {len(page) / 1e6:.1f} MB, {len(records):,} records")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.html"
        file.write_bytes(page)
        shown = [show(file) for _ in range(args.times)]
    paint, loaded, search = (statistics.median(column) for column in zip(*shown, strict=True))
    print(f"first paint {paint:.0f} ms (goal {GOAL_MS} ms), loaded {loaded:.0f} ms, search {search:.0f} ms")


def show(file: Path) -> tuple[float, float, float]:
    """Milliseconds to the first paint, until all is loaded, and for one search, in a window of its own."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as window:
        window.open(file)
        paint, loaded = window.wait(PAINT)
        return paint, loaded, search_ms(window)


def search_ms(window: Browser) -> float:
    before = time.monotonic()
    window.script(SEARCH)
    window.wait("return document.getElementById('found').textContent === 'nothing'")
    return 1000 * (time.monotonic() - before)


if __name__ == "__main__":
    main()
