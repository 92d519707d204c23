/** The error notice: the server's message, with a title for the kind of failure. */

import { byId, h } from "./dom.js";

const TITLES = {
  0: "Not sent",
  200: "The answer broke off",
  401: "The server asks for an API key",
  404: "The server does not know this",
  413: "That is too long to send",
  429: "The server is busy",
  503: "The server is not ready",
};

export function noticeView(store) {
  const root = byId("notice");
  store.subscribe(["error"], ({ error }) => {
    root.hidden = !error;
    if (!error) return;
    const close = h("button", { class: "quiet small", type: "button" }, "Dismiss");
    close.addEventListener("click", () => store.set({ error: null }));
    root.replaceChildren(h("div", {}, h("h2", {}, title(error)), h("p", {}, error.message)), close);
    root.scrollIntoView({ block: "nearest" });
  });
}

function title({ status, name }) {
  if (status === undefined) return name === "SyntaxError" ? "The JSON cannot be read" : "The page failed";
  return TITLES[status] ?? (status < 500 ? "The server refused this" : "The server failed");
}
