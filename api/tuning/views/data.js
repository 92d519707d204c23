/** The drop zone for the rows, and the button that trains on them. */

import { byId } from "../../playground/views/dom.js";

const EMPTY = "Drop a JSONL file here, or choose one";

export function dataView(store, actions) {
  const drop = byId("drop");
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files.length) actions.chooseFile(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) actions.chooseFile(event.dataTransfer.files[0]);
  });
  byId("start").addEventListener("click", () => actions.train());
  byId("options").addEventListener("change", () => store.state.file?.id && actions.check());
  store.subscribe(["file"], ({ file }) => (byId("file-name").textContent = file?.name ?? EMPTY));
  store.subscribe(["report", "busy"], ({ report, busy }) => {
    byId("start").disabled = !report || Boolean(report.error) || Boolean(busy);
    byId("checked").textContent = busy ? `${busy}…` : "";
  });
}
