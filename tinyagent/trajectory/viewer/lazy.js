// Blocks that are filled when they come near the window and emptied when many others were looked at since.

const KEPT_BLOCKS = 60;

/** Watches blocks in a pane that scrolls (null: the whole page does). `onTop` gets the block that is at the top now. */
function lazyBlocks(pane, onTop) {
  const fills = new Map();
  const filled = new Set();
  const waiting = new Set();
  const onScreen = new Set();

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) fill(entry.target);
  }, { root: pane, rootMargin: "600px 0px" });

  const top = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) onScreen[isIntersecting ? "add" : "delete"](target);
    const first = [...onScreen].sort((a, b) => a.offsetTop - b.offsetTop)[0];
    if (first) onTop(first);
  }, { root: pane, rootMargin: "-60px 0px -55% 0px" });

  /** Fills a block now. What is not loaded yet is tried again later. */
  function fill(block) {
    if (filled.has(block)) {
      filled.delete(block); // moves to the end of the order
      filled.add(block);
      return;
    }
    const content = contentOf(block);
    if (!content) {
      waiting.add(block);
      return;
    }
    waiting.delete(block);
    block.append(...content);
    block.classList.add("filled");
    filled.add(block);
    if (filled.size > KEPT_BLOCKS) emptyOldest();
  }

  /** Elements for a block, null while they cannot be made. A fault in one block leaves the others as they are. */
  function contentOf(block) {
    try {
      return fills.get(block)?.() ?? null;
    } catch (error) {
      console.error(error);
      return [h("p.error", {}, `This part cannot be shown: ${error.message}`)];
    }
  }

  function emptyOldest() {
    for (const block of filled) {
      if (filled.size <= KEPT_BLOCKS) return;
      if (onScreen.has(block) || block.contains(document.activeElement)) continue;
      const { bottom, top: above } = block.getBoundingClientRect();
      if (bottom > -1200 && above < innerHeight + 1200) continue;
      block.replaceChildren();
      block.classList.remove("filled");
      filled.delete(block);
    }
  }

  return {
    fill,
    filled,
    retry: () => waiting.forEach(fill),
    add(block, make) {
      fills.set(block, make);
      near.observe(block);
      top.observe(block);
    },
    clear() {
      near.disconnect();
      top.disconnect();
      for (const set of [fills, filled, waiting, onScreen]) set.clear();
    },
  };
}
