/** An answer's tokens as elements, tinted by how unlikely each was; and what else could have come. */

import { h, byId } from "./dom.js";
import { visible } from "./visible.js";

const STRONGEST = 45; // per cent of the tint that a token of no probability gets

const tokens = new WeakMap(); // element → token

/** Returns what shows a list of tokens in `home`: those that are new are added, another list replaces all. */
export function tokenText(home) {
  let shown = [];
  let count = 0;
  return (list) => {
    if (list !== shown) {
      home.replaceChildren();
      count = 0;
    }
    home.append(...list.slice(count).map((token) => span(token)));
    shown = list;
    count = list.length;
  };
}

function span(token) {
  if (token.logprob === undefined || token.logprob === null) return document.createTextNode(token.text);
  const element = h("span", { class: token.special ? "token special" : "token" }, token.text);
  element.style.setProperty("--doubt", `${Math.round((1 - Math.exp(token.logprob)) * STRONGEST)}%`);
  tokens.set(element, token);
  return element;
}

/** Show the alternatives of the token that is pointed at, or that the arrow keys have come to. */
export function glances(home) {
  const glance = byId("glance");
  let shown = null;

  function show(element) {
    shown?.classList.remove("seen");
    shown = tokens.has(element) ? element : null;
    shown?.classList.add("seen");
    glance.hidden = !shown;
    if (!shown) return;
    glance.replaceChildren(...contents(tokens.get(shown)));
    place(glance, shown);
  }

  home.addEventListener("pointerover", (event) => show(event.target));
  home.addEventListener("pointerleave", () => show(null));
  home.addEventListener("focusout", () => show(null));
  home.addEventListener("keydown", (event) => {
    const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (!step || !event.target.classList.contains("answer-text")) return;
    show(shown && event.target.contains(shown) ? (shown[step] ?? shown) : event.target.firstElementChild);
    event.preventDefault();
  });
  addEventListener("scroll", () => show(null), { passive: true });
}

function contents(token) {
  const own = { text: token.text, logprob: token.logprob };
  const others = (token.top ?? []).filter((other) => other.text !== token.text);
  const rows = [own, ...others].sort((a, b) => b.logprob - a.logprob);
  return rows.map((row) => alternative(row, row === own));
}

function alternative({ text, logprob }, isOwn) {
  const share = Math.exp(logprob);
  const bar = h("i", {});
  bar.style.setProperty("--share", `${share * 100}%`);
  return h(
    "div",
    { class: isOwn ? "own" : "" },
    h("code", {}, visible(text)),
    bar,
    h("b", {}, percent(share)),
  );
}

const percent = (share) => (share < 0.001 ? "<0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);

/** Under the token, within the window; above it where there is no room below. */
function place(glance, element) {
  const { left, top, bottom } = element.getClientRects()[0];
  const { offsetWidth, offsetHeight } = glance;
  const below = bottom + 8 + offsetHeight < innerHeight;
  glance.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
  glance.style.top = `${below ? bottom + 8 : top - offsetHeight - 8}px`;
}
