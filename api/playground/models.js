/** The model and its adapters: which there are, and which one answers. Knows no DOM element. */

import { callServer } from "./server.js";

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

/** Keeps the selected model, unless it is no longer served. */
async function loadModels(store) {
  const { data } = await (await callServer("/v1/models", { key: store.state.key })).json();
  const models = [data[0], ...data.filter(({ parent }) => parent)].map(toModel);
  const { models: before, model } = store.state;
  if (JSON.stringify(models) === JSON.stringify(before)) return;
  store.set({ models, model: models.find(({ id }) => id === model?.id) ?? models[0] });
}

const toModel = ({ id, parent, max_model_len }) => ({
  id,
  context: max_model_len,
  adapter: parent ? id : null,
});
