/** The dialog that shows the request as a curl command, in a dialect of the user's choice. */

import { curlCommand } from "../curl.js";
import { DIALECTS } from "../dialects/index.js";
import { buildRequest } from "../request.js";
import { byId, copy } from "./dom.js";
import { segmentedControl } from "./segmented_control.js";

export function curlView(store) {
  const [dialog, text, streamed, button] = ["curl", "curl-text", "curl-streamed", "curl-copy"].map(byId);
  const names = Object.fromEntries(Object.entries(DIALECTS).map(([id, { name }]) => [id, name]));
  let dialect = "openai";
  const updateDialects = segmentedControl(byId("curl-dialects"), names, (id) => {
    dialect = id;
    update();
  });

  function update() {
    const { mode } = store.state;
    updateDialects(dialect, (id) =>
      DIALECTS[id].modes.includes(mode) ? "" : `${names[id]} has no chat of its own`,
    );
    text.textContent = commandOrError(store.state, dialect, streamed.checked);
  }
  byId("curl-open").addEventListener("click", () => {
    dialect = store.state.dialect;
    update();
    dialog.showModal();
  });
  byId("curl-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  streamed.addEventListener("change", update);
  button.addEventListener("click", () => copy(text.textContent, button, text));
}

function commandOrError(state, dialect, streamed) {
  try {
    const request = DIALECTS[dialect].serialize(buildRequest(state), streamed);
    return curlCommand(request, { needsKey: Boolean(state.key) });
  } catch (error) {
    return error.message;
  }
}
