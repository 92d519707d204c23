/** A textarea as tall as its text: a copy of the text behind it sets the height and marks truncation. */

import { h } from "./dom.js";

/** @returns {{element: HTMLElement, update: (text: string, truncated?: number) => void}} */
export function autosizeTextarea({ label, placeholder, onInput, rows = 1 }) {
  const textarea = h("textarea", { placeholder, rows, spellcheck: false, "aria-label": label });
  const mirror = h("div", { class: "mirror", "aria-hidden": "true" });
  const element = h("div", { class: "autosize" }, mirror, textarea);
  textarea.addEventListener("input", () => onInput(textarea.value));

  /** The first `truncated` characters are marked as truncated. */
  function update(text, truncated = 0) {
    if (textarea.value !== text) textarea.value = text;
    const marked = truncated > 0 ? [h("mark", {}, text.slice(0, truncated))] : [];
    mirror.replaceChildren(...marked, `${text.slice(truncated)}\u200b`);
  }
  return { element, update };
}
