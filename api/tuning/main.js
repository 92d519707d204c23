/** The tuning page's entry point: creates the state, the actions on it and the views of it. */

import { callServer } from "../playground/server.js";
import { Store } from "../playground/store.js";
import { Actions } from "./actions.js";
import { initialState, persistKey } from "./state.js";
import { chartView } from "./views/chart.js";
import { compareView } from "./views/compare.js";
import { dataView } from "./views/data.js";
import { jobView } from "./views/job.js";
import { noticeView } from "./views/notice.js";
import { optionsView } from "./views/options.js";
import { reportView } from "./views/report.js";
import { topView } from "./views/top.js";

const store = new Store(initialState());
const actions = new Actions(store);

topView(store);
noticeView(store);
dataView(store, actions);
optionsView(store);
reportView(store);
jobView(store, actions);
chartView(store);
compareView(store, actions);
persistKey(store);
store.subscribe(["key"], load);

async function load({ key }) {
  try {
    const { data } = await (await callServer("/v1/models", { key })).json();
    store.set({ model: data[0].id, error: null });
    await actions.loadJobs();
  } catch (error) {
    store.set({ error });
  }
}
