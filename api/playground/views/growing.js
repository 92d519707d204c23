/** A textarea as tall as its text: a copy of it behind gives the height, and can mark what is cut. */

import { h } from "./dom.js";

/** @returns {{home: HTMLElement, area: HTMLTextAreaElement, show: (text: string, cut?: number) => void}} */
export function growing({ label, placeholder, write, rows = 1 }) {
  const area = h("textarea", { placeholder, rows, spellcheck: false, "aria-label": label });
  const mirror = h("div", { class: "mirror", "aria-hidden": "true" });
  const home = h("div", { class: "growing" }, mirror, area);
  area.addEventListener("input", () => write(area.value));

  /** `cut` characters at the beginning are marked as not seen by the model. */
  function show(text, cut = 0) {
    if (area.value !== text) area.value = text;
    const marked = cut > 0 ? [h("mark", {}, text.slice(0, cut))] : [];
    mirror.replaceChildren(...marked, `${text.slice(cut)}\u200b`);
  }
  return { home, area, show };
}
