/** The settings panel: a control and a help text for each parameter that the dialect supports. */

import { DIALECTS } from "../dialects/index.js";
import { PARAMS, SECTIONS, defaultParams, isNeutral } from "../params.js";
import { createControl } from "./controls.js";
import { byId, h } from "./dom.js";

const OPEN_SECTIONS = ["Sampling", "Length", "Answers"];

export function panelView(root, store) {
  const rows = {};
  for (const [title, params] of Object.entries(SECTIONS)) {
    const summary = h("summary", {}, h("h3", {}, title));
    const section = h("details", { class: "params", open: OPEN_SECTIONS.includes(title) }, summary);
    for (const [name, param] of Object.entries(params)) {
      rows[name] = createRow(name, param, store);
      section.append(rows[name].element);
    }
    root.append(section);
  }
  const unsupported = h("p", { class: "hint unsupported" });
  root.append(unsupported);
  byId("reset").addEventListener("click", () => store.set({ params: defaultParams() }));
  store.subscribe(["params", "dialect"], ({ params, dialect }) => {
    for (const row of Object.values(rows)) row.update(params, DIALECTS[dialect]);
    unsupported.textContent = unsupportedText(DIALECTS[dialect]);
  });
  overlayOnNarrowScreens(byId("panel"));
}

function createRow(name, param, store) {
  const id = `param-${name}`;
  const control = createControl(id, param, (value) => store.setParam(name, value));
  const label = h("label", { for: id }, param.label);
  const help = h("p", { class: "hint", id: `${id}-help` }, param.help);
  const element = h("div", { class: "param" }, label, ...control.elements, help);

  function update(params, dialect) {
    element.hidden = !(name in dialect.fields) || (param.visibleIf ? !param.visibleIf(params) : false);
    element.classList.toggle("changed", !isNeutral(name, params[name]));
    control.update(params[name], name === "response_format" ? ["free", ...dialect.formats] : undefined);
  }
  return { element, update };
}

/** A sentence that lists the parameters that only other dialects support. */
function unsupportedText({ name, fields }) {
  const names = Object.keys(PARAMS).filter((param) => !(param in fields) && param !== "format_spec");
  if (!names.length) return "";
  const labels = names.map((param) => PARAMS[param].label.toLowerCase());
  return `Not in ${name}, but in another dialect: ${labels.join(", ")}.`;
}

/** On a narrow screen the panel covers the page; a button opens it, Done or Escape closes it. */
function overlayOnNarrowScreens(panel) {
  const openButton = byId("panel-open");
  const setOpen = (open) => {
    panel.classList.toggle("open", open);
    openButton.setAttribute("aria-expanded", open);
    (open ? byId("panel-close") : openButton).focus();
  };
  openButton.addEventListener("click", () => setOpen(true));
  byId("panel-close").addEventListener("click", () => setOpen(false));
  panel.addEventListener(
    "keydown",
    (event) => event.key === "Escape" && panel.classList.contains("open") && setOpen(false),
  );
}
