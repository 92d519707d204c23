/** Form controls, one function for each parameter kind. */

import { h } from "./dom.js";

const CONTROLS = { number, integer: number, toggle, choice, text, lines, numbers };

/**
 * The control of a parameter. `onChange` gets each new value; `update` shows a value.
 * @returns {{elements: HTMLElement[], update: (value: any, options?: string[]) => void}}
 */
export const createControl = (id, param, onChange) => CONTROLS[param.kind](id, param, onChange);

/** The field accepts any number, so that the server's own error is shown. The slider has the usual range. */
function number(id, { min, max, step, kind, label }, onChange) {
  const field = h("input", {
    id,
    type: "number",
    step: "any",
    inputMode: kind === "integer" ? "numeric" : "decimal",
    "aria-describedby": `${id}-help`,
  });
  field.addEventListener("input", () => onChange(field.value === "" ? null : Number(field.value)));
  const slider =
    max === undefined
      ? null
      : h("input", { type: "range", min, max, step, "aria-label": `${label}, slider` });
  slider?.addEventListener("input", () => onChange(Number(slider.value)));

  function update(value) {
    if (document.activeElement !== field || Number(field.value) !== value) field.value = value ?? "";
    if (!slider) return;
    slider.value = value ?? max;
    slider.style.setProperty("--share", `${((slider.value - min) / (max - min)) * 100}%`);
  }
  return { elements: slider ? [field, slider] : [field], update };
}

function toggle(id, _, onChange) {
  const checkbox = h("input", { id, type: "checkbox", role: "switch", "aria-describedby": `${id}-help` });
  checkbox.addEventListener("change", () => onChange(checkbox.checked));
  return { elements: [checkbox], update: (value) => (checkbox.checked = value) };
}

/** `update` takes the options to offer as its second argument: all of them by default. */
function choice(id, { options }, onChange) {
  const select = h("select", { id, "aria-describedby": `${id}-help` });
  const optionElements = Object.entries(options).map(([value, label]) => h("option", { value }, label));
  select.append(...optionElements);
  select.addEventListener("change", () => onChange(select.value));

  function update(value, offered = Object.keys(options)) {
    for (const option of optionElements) option.hidden = option.disabled = !offered.includes(option.value);
    select.value = value;
  }
  return { elements: [select], update };
}

function text(id, _, onChange) {
  const textarea = h("textarea", { id, rows: 3, spellcheck: false, "aria-describedby": `${id}-help` });
  textarea.addEventListener("input", () => onChange(textarea.value));
  return {
    elements: [textarea],
    update: (value) => (textarea.value === value ? null : (textarea.value = value)),
  };
}

/** One string a line. The escapes \n, \t, \r and \\ stand for the characters themselves. */
function lines(id, _, onChange) {
  const parse = (text) => text.split("\n").filter(Boolean).map(unescapeText);
  const format = (values) => values.map(escapeText).join("\n");
  return list(id, parse, format, onChange);
}

/** Words that are no ids stay as they are, so that the server's own error is shown. */
function numbers(id, _, onChange) {
  const parse = (text) =>
    (text.match(/[^\s,]+/g) ?? []).map((word) => (/^-?\d+$/.test(word) ? Number(word) : word));
  return list(id, parse, (values) => values.join(", "), onChange);
}

/** `update` leaves the text as typed while it parses to the same values. */
function list(id, parse, format, onChange) {
  const textarea = h("textarea", { id, rows: 2, spellcheck: false, "aria-describedby": `${id}-help` });
  textarea.addEventListener("input", () => onChange(parse(textarea.value)));
  const update = (values) => {
    if (format(parse(textarea.value)) !== format(values)) textarea.value = format(values);
  };
  return { elements: [textarea], update };
}

const ESCAPES = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\" };
const CHARACTERS = Object.fromEntries(
  Object.entries(ESCAPES).map(([character, escape]) => [escape, character]),
);

const escapeText = (text) => text.replaceAll(/[\n\t\r\\]/g, (character) => ESCAPES[character]);
const unescapeText = (text) => text.replaceAll(/\\[ntr\\]/g, (escape) => CHARACTERS[escape]);
