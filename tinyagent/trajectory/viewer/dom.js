// Elements and numbers. Text enters the page here, and only as text.

/** An element: properties, `data-*` by `data`, `on*` handlers, and children: elements, nothing, or texts to be seen whole. */
function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  for (const child of children.flat(2)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : seen(String(child)));
  }
  return element;
}

/** An SVG element by its attributes. */
function s(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

const byId = (id) => document.getElementById(id);

// Control characters, zero width and direction marks, and the tag block that hides text from people alone. Joiners of
// scripts and emoji stay.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

/** The text with characters that would not be seen, or would reorder others, made visible. */
function seen(text) {
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

const NUMBER = new Intl.NumberFormat("en-US");
const whole = (n) => NUMBER.format(Math.round(n));
const percent = (share) => `${Math.round(100 * share)} %`;
const plural = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`;

/** 12,345 as "12.3k". */
function brief(n) {
  if (n < 1000) return String(Math.round(n));
  const [value, unit] = n < 999_500 ? [n / 1000, "k"] : [n / 1e6, "M"];
  return (value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0)) + unit;
}

/** Dollars with the digits that they need; null is a price that is not known. */
function dollars(usd) {
  if (usd === null || usd === undefined) return "cost unknown";
  if (usd === 0) return "$0";
  return usd >= 1 ? `$${usd.toFixed(2)}` : usd >= 0.001 ? `$${usd.toFixed(4)}` : `$${usd.toPrecision(2)}`;
}

/** Seconds as "3.2 s", "5 min 12 s", "2 h 5 min". */
function lasting(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
