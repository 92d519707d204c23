/** The models and their adapters: which there are, and which one answers. Knows no DOM element. */

import { callServer } from "./server.js";

/** What a menu says of a model that is not in memory. */
const STATES = {
  unloaded: "not loaded",
  loading: "loading",
  sleeping: "asleep",
  unloading: "leaving",
  failed: "refused",
};

/** Load the list when the API key changes, and again when the window gets the focus: adapters come and go. */
export function followModels(store) {
  store.subscribe(["key"], async () => {
    try {
      await loadModels(store);
      store.set({ error: null });
    } catch (error) {
      store.set({ error });
    }
  });
  addEventListener("focus", () => loadModels(store).catch((error) => console.info(error.message)));
}

/** Keeps the selected model, unless it is no longer served. A model with several names is listed once. */
async function loadModels(store) {
  const { data } = await (await callServer("/v1/models", { key: store.state.key })).json();
  const listed = data.filter(({ id, root, parent }) => parent || id === root);
  const models = listed.map((card) => toModel(card, listed[0]));
  const { models: before, model } = store.state;
  if (JSON.stringify(models) === JSON.stringify(before)) return;
  store.set({ models, model: models.find(({ id }) => id === model?.id) ?? models[0] });
}

const toModel = ({ id, parent, max_model_len }, first) => ({
  id,
  context: max_model_len,
  adapter: parent ? id : null,
  isDefault: (parent ?? id) === first.id,
});

/** The model's name, with its state if it is not in memory. `states`: of all models, by name. */
export function modelLabel({ id, adapter }, states) {
  const { value, detail } = states[id] ?? {};
  const state = STATES[value] ? ` · ${STATES[value]}${detail ? `: ${detail}` : ""}` : "";
  return adapter ? `${id} (adapter)` : `${id}${state}`;
}

/** The models that are compared with the chosen one. */
export const comparedModels = ({ models, model, compared }) =>
  models.filter(({ id }) => id !== model?.id && compared.includes(id));

/** The states in the server's status, by model. */
export const statesByModel = (models) =>
  Object.fromEntries(models.map(({ model, status }) => [model, status]));
