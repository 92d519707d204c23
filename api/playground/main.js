/** The playground: the state, what changes it, and what shows it. */

import { Run } from "./run.js";
import { ask } from "./server.js";
import { remember, remembered } from "./state.js";
import { Store } from "./store.js";
import { countTokens } from "./tokens.js";
import { answersView } from "./views/answers.js";
import { barView } from "./views/bar.js";
import { chatView } from "./views/chat.js";
import { curlView } from "./views/curl.js";
import { byId } from "./views/dom.js";
import { machineView } from "./views/machine.js";
import { noticeView } from "./views/notice.js";
import { panelView } from "./views/panel.js";
import { glances } from "./views/spans.js";
import { textView } from "./views/text.js";
import { topView } from "./views/top.js";

const store = new Store(remembered());
const run = new Run(store);

topView(store, run);
textView(byId("paper"), store);
chatView(byId("paper"), byId("composer"), store);
answersView(byId("answers"), store, run);
glances(byId("answers"));
noticeView(store);
barView(store, run);
panelView(byId("params"), store);
curlView(store);
machineView(store);
remember(store);
countTokens(store);
store.watch(["key"], findModel);

async function findModel({ key }) {
  try {
    const { data } = await (await ask("/v1/models", { key })).json();
    store.set({ model: { id: data[0].id, context: data[0].max_model_len }, error: null });
  } catch (error) {
    store.set({ error });
  }
}
