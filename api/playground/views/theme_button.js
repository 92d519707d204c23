/** The button of the header that changes the colours. */

import { byId } from "./dom.js";

const THEMES = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };

export function themeButton(store) {
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
