/** The last error, in the server's words. */

import { byId, h } from "../../playground/views/dom.js";

export function noticeView(store) {
  const notice = byId("notice");
  store.subscribe(["error"], ({ error }) => {
    notice.hidden = error === null;
    const close = h("button", { class: "quiet small", type: "button", onclick: () => store.set({ error: null }) }, "Close");
    notice.replaceChildren(...(error ? [h("p", {}, error.message), close] : []));
  });
}
