/** How fast a generation is. */

import { h } from "./dom.js";

/** @returns {(string|HTMLElement)[]} none before the first token of a generation that has ended */
export function speed({ tokensPerSecond, firstTokenAt, startedAt }, running) {
  if (!firstTokenAt) return running ? ["waiting for the first token"] : [];
  const firstToken = ` · first after ${((firstTokenAt - startedAt) / 1000).toFixed(2)} s`;
  const rate = `${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens/s`;
  return [rate, h("span", { class: "wide-only" }, firstToken)];
}
