/** Why an answer ended, as chips: the reason, the stop string, what was generated behind it. */

import { h } from "./dom.js";
import { visible } from "./visible.js";

const REASONS = {
  stop: "ended",
  length: "length limit",
  stopped: "stopped",
  broken: "broke off",
};

export function ending({ reason, stop, tail, seed, tokens }) {
  if (!reason) return [];
  const stopped = typeof stop === "string" && stop !== "";
  const chips = [stopped ? chip("stopped at", stop) : h("span", {}, REASONS[reason] ?? reason)];
  if (tail) chips.push(chip("left off", tail));
  if (seed !== null) chips.push(h("span", {}, `seed ${seed}`));
  return [...chips, h("span", {}, tokens.length === 1 ? "1 token" : `${tokens.length} tokens`)];
}

const chip = (words, text) => h("span", {}, `${words} `, h("code", {}, visible(text)));
