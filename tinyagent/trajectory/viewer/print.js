// On paper: every section of a run of usual size, else the ones around what is looked at.

const PAPER_CHARS = 1_500_000;
let unprint = [];

addEventListener("beforeprint", () => {
  let left = PAPER_CHARS;
  for (const block of printOrder()) {
    if (block.classList.contains("filled")) continue;
    const number = block.dataset.section;
    left -= number === undefined ? 20_000 : rawSection(Number(number)).length;
    if (left < 0) break;
    const row = rows[number];
    if (!row) continue;
    block.append(...[sectionHead(row, Number(number)), ...cards(section(Number(number)) ?? [])]);
    unprint.push(block);
  }
});

addEventListener("afterprint", () => {
  for (const block of unprint) block.replaceChildren();
  unprint = [];
});

/** Blocks from the one that is looked at outwards, so that the near ones are on paper if not all can be. */
function printOrder() {
  const all = [...pane.children];
  const here = Math.max(0, all.indexOf(byId(`s${state.section}`)));
  return all.map((block, n) => [Math.abs(n - here), block]).sort((a, b) => a[0] - b[0]).map(([, block]) => block);
}
