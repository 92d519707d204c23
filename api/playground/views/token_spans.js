/** A completion's tokens as elements tinted by their probability, and the tooltip with the alternatives. */

import { byId, h } from "./dom.js";
import { showWhitespace } from "./whitespace.js";

const MAX_TINT = 45; // per cent of the tint colour for a token of probability 0

const tokenByElement = new WeakMap();

/** Returns a function that shows a token list in `root`. It only appends if the list is the same array. */
export function tokenRenderer(root) {
  let rendered = [];
  let numRendered = 0;
  return (tokens) => {
    if (tokens !== rendered) {
      root.replaceChildren();
      numRendered = 0;
    }
    root.append(...tokens.slice(numRendered).map((token) => tokenNode(token)));
    rendered = tokens;
    numRendered = tokens.length;
  };
}

function tokenNode(token) {
  if (token.logprob === undefined || token.logprob === null) return document.createTextNode(token.text);
  const element = h("span", { class: token.special ? "token special" : "token" }, token.text);
  element.style.setProperty("--tint", `${Math.round((1 - Math.exp(token.logprob)) * MAX_TINT)}%`);
  tokenByElement.set(element, token);
  return element;
}

/** Show the alternatives of the token below the pointer, or of the one reached with the arrow keys. */
export function tokenTooltip(root) {
  const tooltip = byId("token-tooltip");
  let active = null;

  function show(element) {
    active?.classList.remove("active");
    active = tokenByElement.has(element) ? element : null;
    active?.classList.add("active");
    tooltip.hidden = !active;
    if (!active) return;
    tooltip.replaceChildren(...alternativeRows(tokenByElement.get(active)));
    positionTooltip(tooltip, active);
  }

  root.addEventListener("pointerover", (event) => show(event.target));
  root.addEventListener("pointerleave", () => show(null));
  root.addEventListener("focusout", () => show(null));
  root.addEventListener("keydown", (event) => {
    const sibling = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (!sibling || !event.target.classList.contains("completion-text")) return;
    const isInside = active && event.target.contains(active);
    show(isInside ? (active[sibling] ?? active) : event.target.firstElementChild);
    event.preventDefault();
  });
  addEventListener("scroll", () => show(null), { passive: true });
}

function alternativeRows(token) {
  const sampled = { text: token.text, logprob: token.logprob };
  const others = (token.top ?? []).filter((other) => other.text !== token.text);
  const alternatives = [sampled, ...others].sort((a, b) => b.logprob - a.logprob);
  return alternatives.map((each) => alternativeRow(each, each === sampled));
}

function alternativeRow({ text, logprob }, isSampled) {
  const probability = Math.exp(logprob);
  const bar = h("i", {});
  bar.style.setProperty("--share", `${probability * 100}%`);
  return h(
    "div",
    { class: isSampled ? "sampled" : "" },
    h("code", {}, showWhitespace(text)),
    bar,
    h("b", {}, percent(probability)),
  );
}

const percent = (share) => (share < 0.001 ? "<0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);

/** Below the token and within the window; above the token where there is no space below. */
function positionTooltip(tooltip, element) {
  const { left, top, bottom } = element.getClientRects()[0];
  const { offsetWidth, offsetHeight } = tooltip;
  const fitsBelow = bottom + 8 + offsetHeight < innerHeight;
  tooltip.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
  tooltip.style.top = `${fitsBelow ? bottom + 8 : top - offsetHeight - 8}px`;
}
