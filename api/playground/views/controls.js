/** A control for each kind of parameter. Each maker gives its parts, and a function that shows a value. */

import { h } from "./dom.js";

const MAKERS = { number, integer: number, toggle, choice, text, lines, numbers };

export const control = (id, param, change) => MAKERS[param.kind](id, param, change);

/** The field takes any number: what the server refuses it says itself. The slider keeps to what is usual. */
function number(id, { min, max, step, kind, label }, change) {
  const field = h("input", {
    id,
    type: "number",
    step: "any",
    inputMode: kind === "integer" ? "numeric" : "decimal",
    "aria-describedby": `${id}-says`,
  });
  field.addEventListener("input", () => change(field.value === "" ? null : Number(field.value)));
  const slider =
    max === undefined
      ? null
      : h("input", { type: "range", min, max, step, "aria-label": `${label}, slider` });
  slider?.addEventListener("input", () => change(Number(slider.value)));

  function show(value) {
    if (document.activeElement !== field || Number(field.value) !== value) field.value = value ?? "";
    if (!slider) return;
    slider.value = value ?? max;
    slider.style.setProperty("--share", `${((slider.value - min) / (max - min)) * 100}%`);
  }
  return { parts: slider ? [field, slider] : [field], show };
}

function toggle(id, _, change) {
  const box = h("input", { id, type: "checkbox", role: "switch", "aria-describedby": `${id}-says` });
  box.addEventListener("change", () => change(box.checked));
  return { parts: [box], show: (value) => (box.checked = value) };
}

function choice(id, { options }, change) {
  const select = h("select", { id, "aria-describedby": `${id}-says` });
  const made = Object.entries(options).map(([value, label]) => h("option", { value }, label));
  select.append(...made);
  select.addEventListener("change", () => change(select.value));

  function show(value, offered = Object.keys(options)) {
    for (const option of made) option.hidden = option.disabled = !offered.includes(option.value);
    select.value = value;
  }
  return { parts: [select], show };
}

function text(id, _, change) {
  const area = h("textarea", { id, rows: 3, spellcheck: false, "aria-describedby": `${id}-says` });
  area.addEventListener("input", () => change(area.value));
  return { parts: [area], show: (value) => (area.value === value ? null : (area.value = value)) };
}

/** \n, \t and \\ stand for what a line cannot hold. */
function lines(id, _, change) {
  const read = (text) => text.split("\n").filter(Boolean).map(unescaped);
  const write = (values) => values.map(escaped).join("\n");
  return list(id, read, write, change);
}

function numbers(id, _, change) {
  const read = (text) => (text.match(/-?\d+/g) ?? []).map(Number);
  return list(id, read, (values) => values.join(", "), change);
}

/** What is being typed stays as it is, as long as it means the same. */
function list(id, read, write, change) {
  const area = h("textarea", { id, rows: 2, spellcheck: false, "aria-describedby": `${id}-says` });
  area.addEventListener("input", () => change(read(area.value)));
  const show = (values) => {
    if (write(read(area.value)) !== write(values)) area.value = write(values);
  };
  return { parts: [area], show };
}

const ESCAPES = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\" };
const MEANT = Object.fromEntries(Object.entries(ESCAPES).map(([character, written]) => [written, character]));

const escaped = (text) => text.replaceAll(/[\n\t\r\\]/g, (character) => ESCAPES[character]);
const unescaped = (text) => text.replaceAll(/\\[ntr\\]/g, (written) => MEANT[written]);
