/** The header: the model, colour theme and API key; below it the switches for the mode and the dialect. */

import { DIALECTS } from "../dialects/index.js";
import { comparedModels, modelLabel } from "../models.js";
import { byId, h } from "./dom.js";
import { keyForm } from "./key_form.js";
import { segmentedControl } from "./segmented_control.js";
import { themeButton } from "./theme_button.js";

const NO_CHAT = { tgi: "TGI's chat is OpenAI's: use that dialect", neodim: "Neodim has no chat" };
const NO_MODEL_NAMES = ["tgi", "neodim"];

export function topView(store, actions) {
  const names = Object.fromEntries(Object.entries(DIALECTS).map(([id, { name }]) => [id, name]));
  const modes = { text: "Text", chat: "Chat" };
  const updateMode = segmentedControl(byId("modes"), modes, (mode) => actions.switchTo(mode));
  const updateDialect = segmentedControl(byId("dialects"), names, (dialect) => store.set({ dialect }));
  store.subscribe(["mode", "dialect", "models", "model", "compared"], (state) => {
    updateMode(state.mode);
    updateDialect(state.dialect, (id) => whyNot(id, state));
  });
  store.subscribe(["models", "model", "compared"], (state) => {
    if (namesModels(state) && NO_MODEL_NAMES.includes(state.dialect)) store.set({ dialect: "openai" });
  });
  store.subscribe(["models", "model", "states"], (state) =>
    byId("model").replaceChildren(modelMenu(state, store)),
  );
  themeButton(store);
  keyForm(store);
}

/** Why a dialect cannot be chosen; empty: it can. */
function whyNot(id, state) {
  if (!DIALECTS[id].modes.includes(state.mode)) return NO_CHAT[id];
  const isUnreachable = namesModels(state) && NO_MODEL_NAMES.includes(id);
  return isUnreachable ? `${DIALECTS[id].name}'s requests name no model: the first one answers` : "";
}

/** Whether requests must name a model, as another one than the first answers. */
const namesModels = (state) =>
  [state.model, ...comparedModels(state)].some((model) => model && !model.isDefault);

/** The model's name, or a menu if there are several models or adapters. */
function modelMenu({ models, model, states }, store) {
  if (models.length < 2) return model?.id ?? "";
  const options = models.map((each) =>
    h("option", { value: each.id, selected: each.id === model.id }, modelLabel(each, states)),
  );
  const menu = h("select", { "aria-label": "Model" }, ...options);
  menu.addEventListener("change", () => store.set({ model: models.find(({ id }) => id === menu.value) }));
  return menu;
}
