/** The dialog that shows what is sent as a command, in any dialect. */

import { asked } from "../asked.js";
import { command } from "../curl.js";
import { DIALECTS } from "../dialects/index.js";
import { byId, copy } from "./dom.js";
import { segments } from "./segments.js";

export function curlView(store) {
  const [dialog, text, streamed, button] = ["curl", "curl-text", "curl-streamed", "curl-copy"].map(byId);
  const names = Object.fromEntries(Object.entries(DIALECTS).map(([id, { name }]) => [id, name]));
  let chosen = "openai";
  const choose = segments(byId("curl-dialects"), names, (name) => {
    chosen = name;
    show();
  });

  function show() {
    const { mode } = store.state;
    choose(chosen, (name) =>
      DIALECTS[name].modes.includes(mode) ? "" : `${names[name]} has no chat of its own`,
    );
    text.textContent = written(store.state, chosen, streamed.checked);
  }
  byId("curl-open").addEventListener("click", () => {
    chosen = store.state.dialect;
    show();
    dialog.showModal();
  });
  byId("curl-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  streamed.addEventListener("change", show);
  button.addEventListener("click", () => copy(text.textContent, button, text));
}

function written(state, dialect, streamed) {
  try {
    return command(DIALECTS[dialect].request(asked(state), streamed), { keyed: Boolean(state.key) });
  } catch (error) {
    return error.message;
  }
}
