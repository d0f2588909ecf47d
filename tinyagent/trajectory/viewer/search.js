// Search in all texts, a slice of time at once, so that the page stays quick; hits are marked in what is shown.

const SLICE_MS = 12;
const MARKED = 2000;
const query = byId("query");
const found = byId("found");
let search = { words: "", hits: [], run: 0, at: -1 };

/** Looks for the words in every section; hits come in as they are found. */
async function startSearch(words) {
  const mine = { words: words.toLowerCase(), hits: [], run: search.run + 1, at: -1 };
  search = mine;
  listed.splice(0, listed.length, ...(words ? [] : rows.keys()));
  if (!words) return endSearch();
  const needle = JSON.stringify(mine.words).slice(1, -1).replace(/[&<>]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
  let until = performance.now() + SLICE_MS;
  for (const number of rows.keys()) {
    if (holds(number, needle, mine.words)) {
      mine.hits.push(number);
      listed.push(number);
    }
    if (performance.now() < until) continue;
    found.textContent = `${plural(mine.hits.length, "place")} …`;
    await new Promise((resolve) => setTimeout(resolve));
    if (search !== mine) return;
    until = performance.now() + SLICE_MS;
  }
  endSearch();
}

/** The text of the page's data is looked at first: what is not in it is in no item. */
function holds(number, needle, words) {
  if (!rawSection(number).toLowerCase().includes(needle)) return false;
  return (section(number) ?? []).some((item) => textsOf(item).some((text) => text.toLowerCase().includes(words)));
}

/** Every text in an item, however deep. */
function textsOf(value) {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => (SKIPPED.has(name) ? [] : textsOf(inner)));
}
const SKIPPED = new Set(["k", "id", "call", "kind", "settings", "digest"]);

function endSearch() {
  found.textContent = search.words ? (search.hits.length ? `in ${plural(search.hits.length, "place")}` : "nothing") : "";
  drawList({ again: true });
  mark();
}

/** Goes to the next section with a hit (`step` 1) or the one before (-1). */
function nextHit(step) {
  const { hits } = search;
  if (!hits.length) return;
  search.at = search.at < 0 ? nearestHit(step) : (search.at + step + hits.length) % hits.length;
  found.textContent = `${search.at + 1} of ${hits.length}`;
  showSection(hits[search.at], (block) => {
    if (!ranges(block).length) openFolds(block);
    return ranges(block)[0];
  });
  mark();
}

function openFolds(block) {
  for (const fold of block.querySelectorAll("details")) fold.open = true;
  for (const box of block.querySelectorAll(".foldable")) box.unfold(true);
}

function nearestHit(step) {
  const at = search.hits.findIndex((number) => number >= state.section);
  return at < 0 ? (step > 0 ? 0 : search.hits.length - 1) : at;
}

/** Marks the hits in all blocks that are filled, without a change to the page's elements. */
function mark() {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("found");
  if (!search.words) return;
  const all = [...blocks.filled].flatMap(ranges).slice(0, MARKED);
  CSS.highlights.set("found", new Highlight(...all));
}

function ranges(block) {
  const made = [];
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && made.length < MARKED) {
    const text = walker.currentNode.data.toLowerCase();
    for (let at = text.indexOf(search.words); at >= 0 && made.length < MARKED; at = text.indexOf(search.words, at + search.words.length)) {
      const range = new Range();
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, Math.min(at + search.words.length, walker.currentNode.length));
      made.push(range);
    }
  }
  return made;
}

let typing = 0;
query.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => startSearch(query.value), 160);
});
query.addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") clearSearch();
});

function clearSearch() {
  query.value = "";
  startSearch("");
  query.blur();
}
