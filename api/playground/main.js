/** The playground's entry point: creates the state, the actions on it and the views of it. */

import { Actions } from "./actions.js";
import { followModels } from "./models.js";
import { loadState, persistState } from "./state.js";
import { Store } from "./store.js";
import { countTokens } from "./tokens.js";
import { barView } from "./views/bar.js";
import { chatEditorView } from "./views/chat_editor.js";
import { compareMenu } from "./views/compare_menu.js";
import { completionsView } from "./views/completions.js";
import { curlView } from "./views/curl.js";
import { byId } from "./views/dom.js";
import { followAnswer } from "./views/follow.js";
import { machineView } from "./views/machine.js";
import { noticeView } from "./views/notice.js";
import { panelView } from "./views/panel.js";
import { textEditorView } from "./views/text_editor.js";
import { tokenTooltip } from "./views/token_spans.js";
import { topView } from "./views/top.js";

const store = new Store(loadState());
const actions = new Actions(store);

topView(store, actions);
compareMenu(store);
textEditorView(byId("editor"), store);
chatEditorView(byId("editor"), byId("composer"), store);
completionsView(byId("completions"), store, actions);
followAnswer(document.querySelector(".main"), store);
tokenTooltip(byId("completions"));
noticeView(store);
barView(store, actions);
panelView(byId("params"), store);
curlView(store);
machineView(store);
persistState(store);
countTokens(store);
followModels(store);
