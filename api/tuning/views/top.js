/** The header: the model, the colours and the API key. */

import { byId } from "../../playground/views/dom.js";

const THEMES = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };

export function topView(store) {
  store.subscribe(["model"], ({ model }) => (byId("model").textContent = model ?? ""));
  themeButton(store);
  keyForm(store);
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
    byId("theme").setAttribute("aria-label", `Colours: ${label}. Change`);
  });
}

function keyForm(store) {
  const input = byId("key-value");
  input.value = store.state.key;
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
