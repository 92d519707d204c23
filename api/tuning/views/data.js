/** The drop zone for the rows, the choice of rows to evaluate on, and the button that trains. */

import { byId } from "../../playground/views/dom.js";
import { CHECKING } from "../actions.js";

const EMPTY = "Drop a JSONL file here, or choose one";
const NO_VALIDATION = "Choose rows to evaluate on";

export function dataView(store, actions) {
  const drop = byId("drop");
  onChoice(byId("file"), (file) => actions.chooseFile(file));
  onChoice(byId("validation"), (file) => actions.chooseValidation(file));
  byId("validation-remove").addEventListener("click", () => actions.chooseValidation(null));
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
  store.subscribe(["validation"], ({ validation }) => {
    byId("validation-name").textContent = validation ? `Evaluated on ${validation.name}` : NO_VALIDATION;
    byId("validation-remove").hidden = !validation;
  });
  store.subscribe(["report", "busy"], ({ report, busy }) => {
    // An edited option is checked when its field loses the focus, which may be by a click on the button.
    const isBusy = busy && busy !== CHECKING;
    byId("start").disabled = !report || Boolean(report.error) || Boolean(isBusy);
    byId("checked").textContent = busy ? `${busy}…` : "";
  });
}

function onChoice(input, choose) {
  input.addEventListener("change", () => {
    if (input.files.length) choose(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
}
