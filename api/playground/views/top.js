/** The header: the model, colour theme and API key; below it the switches for the mode and the dialect. */

import { DIALECTS } from "../dialects/index.js";
import { byId, h } from "./dom.js";
import { keyForm } from "./key_form.js";
import { segmentedControl } from "./segmented_control.js";
import { themeButton } from "./theme_button.js";

const NO_CHAT = { tgi: "TGI's chat is OpenAI's: use that dialect", neodim: "Neodim has no chat" };

export function topView(store, actions) {
  const names = Object.fromEntries(Object.entries(DIALECTS).map(([id, { name }]) => [id, name]));
  const modes = { text: "Text", chat: "Chat" };
  const updateMode = segmentedControl(byId("modes"), modes, (mode) => actions.switchTo(mode));
  const updateDialect = segmentedControl(byId("dialects"), names, (dialect) => store.set({ dialect }));
  store.subscribe(["mode", "dialect"], ({ mode, dialect }) => {
    updateMode(mode);
    updateDialect(dialect, (id) => (DIALECTS[id].modes.includes(mode) ? "" : NO_CHAT[id]));
  });
  store.subscribe(["models", "model"], (state) => byId("model").replaceChildren(modelMenu(state, store)));
  themeButton(store);
  keyForm(store);
}

/** The model's name, or a menu if the model has adapters. */
function modelMenu({ models, model }, store) {
  if (models.length < 2) return model?.id ?? "";
  const options = models.map(({ id, adapter }) =>
    h("option", { value: id, selected: id === model.id }, adapter ? `${id} (adapter)` : id),
  );
  const menu = h("select", { "aria-label": "Model" }, ...options);
  menu.addEventListener("change", () => store.set({ model: models.find(({ id }) => id === menu.value) }));
  return menu;
}
