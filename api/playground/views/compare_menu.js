/** The menu of models to compare with the chosen one. */

import { modelLabel } from "../models.js";
import { byId, h } from "./dom.js";

export function compareMenu(store) {
  const menu = byId("compare");
  store.subscribe(["models", "model", "states", "compared"], ({ models, model, states, compared }) => {
    menu.hidden = models.length < 2;
    const others = models.filter(({ id }) => id !== model?.id);
    const chosen = others.filter(({ id }) => compared.includes(id));
    menu.querySelector("summary").textContent = chosen.length ? `Compare ${chosen.length + 1}` : "Compare";
    byId("compare-models").replaceChildren(...others.map((each) => checkbox(each, states, store)));
  });
}

function checkbox(model, states, store) {
  const { compared } = store.state;
  const input = h("input", { type: "checkbox", value: model.id, checked: compared.includes(model.id) });
  input.addEventListener("change", () => {
    const rest = store.state.compared.filter((id) => id !== model.id);
    store.set({ compared: input.checked ? [...rest, model.id] : rest });
    byId("compare-models").querySelector(`input[value="${CSS.escape(model.id)}"]`)?.focus();
  });
  return h("label", { class: "checkbox" }, input, ` ${modelLabel(model, states)}`);
}
