/** The header: the model, colour theme and API key; below it the switches for the mode and the dialect. */

import { DIALECTS } from "../dialects/index.js";
import { byId, h } from "./dom.js";
import { segmentedControl } from "./segmented_control.js";

const THEMES = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };
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

function themeButton(store) {
  const themes = Object.keys(THEMES);
  byId("theme").addEventListener("click", () => {
    store.set({ theme: themes[(themes.indexOf(store.state.theme) + 1) % themes.length] });
  });
  store.subscribe(["theme"], ({ theme }) => {
    const [icon, label] = THEMES[theme];
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = icon;
    byId("theme").title = `Colours: ${label}`;
    byId("theme").setAttribute("aria-label", `Colours: ${label}. Change`);
  });
}

function keyForm(store) {
  const input = byId("key-value");
  input.value = store.state.key;
  input.addEventListener("change", () => store.set({ key: input.value.trim() }));
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    store.set({ key: input.value.trim(), error: null });
    byId("key").open = false;
  });
  store.subscribe(["error"], ({ error }) => {
    if (error?.status !== 401) return;
    byId("key").open = true;
    input.focus();
  });
}
