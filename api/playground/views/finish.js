/** How a completion ended, as chips: the reason, the stop string, the text after it, the seed, the length. */

import { h } from "./dom.js";
import { showWhitespace } from "./whitespace.js";

const REASONS = {
  stop: "ended",
  length: "length limit",
  aborted: "stopped",
  failed: "broke off",
};

/** @returns {HTMLElement[]} none while the completion is streaming */
export function finishChips({ finishReason, stop, tail, seed, tokens }) {
  if (!finishReason) return [];
  const hasStopString = typeof stop === "string" && stop !== "";
  const reason = hasStopString
    ? textChip("stopped at", stop)
    : h("span", {}, REASONS[finishReason] ?? finishReason);
  const chips = [reason];
  if (tail) chips.push(textChip("left off", tail));
  if (seed !== null) chips.push(h("span", {}, `seed ${seed}`));
  return [...chips, h("span", {}, tokens.length === 1 ? "1 token" : `${tokens.length} tokens`)];
}

const textChip = (label, text) => h("span", {}, `${label} `, h("code", {}, showWhitespace(text)));
