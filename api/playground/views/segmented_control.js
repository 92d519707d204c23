/** A segmented control: radio buttons side by side that look like one control. */

import { h } from "./dom.js";

/**
 * Fill `root` with one radio button for each option.
 * @param {Record<string, string>} options  label by value
 * @param {(value: string) => void} onChange
 * @returns {(selected: string, disabledReason?: (value: string) => string) => void} updates the control:
 *   an option is disabled where disabledReason returns a text, which is shown as its tooltip
 */
export function segmentedControl(root, options, onChange) {
  const inputs = Object.entries(options).map(([value, label]) => {
    const input = h("input", { type: "radio", name: root.id, value });
    input.addEventListener("change", () => onChange(value));
    root.append(h("label", {}, input, h("span", {}, label)));
    return input;
  });
  return (selected, disabledReason = () => "") => {
    for (const input of inputs) {
      input.checked = input.value === selected;
      input.disabled = Boolean(disabledReason(input.value));
      input.parentElement.title = disabledReason(input.value);
    }
  };
}
