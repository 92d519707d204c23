/** The form of the header for the API key. A refusal for want of one opens it. */

import { byId } from "./dom.js";

export function keyForm(store) {
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
