/** Every parameter that the dialect has, each with a control and what it does. */

import { DIALECTS } from "../dialects/index.js";
import { PARAMS, SECTIONS, isNeutral, starts } from "../params.js";
import { control } from "./controls.js";
import { byId, h } from "./dom.js";

const OPEN = ["Chance", "Length", "Answers"];

export function panelView(home, store) {
  const rows = {};
  for (const [title, params] of Object.entries(SECTIONS)) {
    const own = Object.entries(params).map(([name, param]) => (rows[name] = row(name, param, store)).home);
    const open = OPEN.includes(title);
    home.append(h("details", { class: "params", open }, h("summary", {}, h("h3", {}, title)), ...own));
  }
  const elsewhere = h("p", { class: "says elsewhere" });
  home.append(elsewhere);
  byId("reset").addEventListener("click", () => store.set({ params: starts() }));
  store.watch(["params", "dialect"], ({ params, dialect }) => {
    for (const [name, row] of Object.entries(rows)) row.show(params, DIALECTS[dialect]);
    elsewhere.textContent = missing(DIALECTS[dialect]);
  });
  sheet(byId("panel"));
}

function row(name, param, store) {
  const id = `param-${name}`;
  const { parts, show } = control(id, param, (value) => store.setParam(name, value));
  const says = h("p", { class: "says", id: `${id}-says` }, param.says);
  const home = h(
    "div",
    { class: `param ${param.kind}` },
    h("label", { for: id }, param.label),
    ...parts,
    says,
  );

  return {
    home,
    show(params, dialect) {
      home.hidden = !(name in dialect.fields) || (param.needs ? !param.needs(params) : false);
      home.classList.toggle("set", !isNeutral(name, params[name]));
      show(params[name], name === "form" ? ["free", ...dialect.forms] : undefined);
    },
  };
}

/** What the other dialects have, by name. */
function missing({ name, fields }) {
  const names = Object.keys(PARAMS).filter((param) => !(param in fields) && param !== "spec");
  if (!names.length) return "";
  const labels = names.map((param) => PARAMS[param].label.toLowerCase());
  return `Not in ${name}, but in another dialect: ${labels.join(", ")}.`;
}

/** On a narrow screen the panel is a sheet over the page. */
function sheet(panel) {
  const opener = byId("panel-open");
  const turn = (open) => {
    panel.classList.toggle("open", open);
    opener.setAttribute("aria-expanded", open);
    (open ? byId("panel-close") : opener).focus();
  };
  opener.addEventListener("click", () => turn(true));
  byId("panel-close").addEventListener("click", () => turn(false));
  panel.addEventListener(
    "keydown",
    (event) => event.key === "Escape" && panel.classList.contains("open") && turn(false),
  );
}
