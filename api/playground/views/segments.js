/** One of a few, side by side: radio buttons that look like one control. */

import { h } from "./dom.js";

/**
 * Fill `home` with an option a name. Returns what shows which one is chosen, and why another cannot be.
 * @param {Record<string, string>} options  name → what is shown
 */
export function segments(home, options, choose) {
  const inputs = Object.entries(options).map(([name, label]) => {
    const input = h("input", { type: "radio", name: home.id, value: name });
    input.addEventListener("change", () => choose(name));
    home.append(h("label", {}, input, h("span", {}, label)));
    return input;
  });
  return (chosen, why = () => "") => {
    for (const input of inputs) {
      input.checked = input.value === chosen;
      input.disabled = Boolean(why(input.value));
      input.parentElement.title = why(input.value);
    }
  };
}
