/** The header: the model, the colours and the API key. */

import { byId } from "../../playground/views/dom.js";
import { keyForm } from "../../playground/views/key_form.js";
import { themeButton } from "../../playground/views/theme_button.js";

export function topView(store) {
  store.subscribe(["model"], ({ model }) => (byId("model").textContent = model ?? ""));
  themeButton(store);
  keyForm(store);
}
