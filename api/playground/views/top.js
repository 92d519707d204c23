/** The top of the page: which model, light or dark, the key; what is written and in which dialect. */

import { DIALECTS } from "../dialects/index.js";
import { byId } from "./dom.js";
import { segments } from "./segments.js";

const THEMES = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };
const NO_CHAT = { tgi: "TGI's chat is OpenAI's: use that dialect", neodim: "Neodim has no chat" };

export function topView(store, run) {
  const names = Object.fromEntries(Object.entries(DIALECTS).map(([id, { name }]) => [id, name]));
  const mode = segments(byId("modes"), { text: "Text", chat: "Chat" }, (mode) => run.switchTo(mode));
  const dialect = segments(byId("dialects"), names, (dialect) => store.set({ dialect }));
  store.watch(["mode", "dialect"], (state) => {
    mode(state.mode);
    dialect(state.dialect, (name) => (DIALECTS[name].modes.includes(state.mode) ? "" : NO_CHAT[name]));
  });
  store.watch(["model"], ({ model }) => {
    byId("model").textContent = model?.id ?? "";
  });
  theme(store);
  key(store);
}

function theme(store) {
  const order = Object.keys(THEMES);
  byId("theme").addEventListener("click", () => {
    store.set({ theme: order[(order.indexOf(store.state.theme) + 1) % order.length] });
  });
  store.watch(["theme"], ({ theme }) => {
    const [sign, words] = THEMES[theme];
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = sign;
    byId("theme").title = `Colours: ${words}`;
    byId("theme").setAttribute("aria-label", `Colours: ${words}. Change`);
  });
}

function key(store) {
  const field = byId("key-value");
  field.value = store.state.key;
  field.addEventListener("change", () => store.set({ key: field.value.trim() }));
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    store.set({ key: field.value.trim(), error: null });
    byId("key").open = false;
  });
  store.watch(["error"], ({ error }) => {
    if (error?.status !== 401) return;
    byId("key").open = true;
    field.focus();
  });
}
