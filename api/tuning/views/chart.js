/** The curves of the loss over the steps, as SVG: of the training, and of the validation set if there is one. */

import { byId, h } from "../../playground/views/dom.js";

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 22;
const NUM_LINES = 4; // of the grid
const SVG = "http://www.w3.org/2000/svg";

export function chartView(store) {
  store.subscribe(["events"], ({ events }) => byId("chart").replaceChildren(...chart(events)));
}

function chart(events) {
  const metrics = events.filter(({ type }) => type === "metrics").map(({ data }) => data).reverse();
  const train = points(metrics.filter(({ learning_rate }) => learning_rate !== undefined), "train_loss");
  const valid = points(metrics, "valid_loss");
  if (train.length < 2) return [];
  const lastStep = Math.max(metrics.at(-1).total_steps ?? 0, ...train.map(([step]) => step));
  const top = Math.max(...[...train, ...valid].map(([, loss]) => loss)) * 1.05 || 1;
  const x = (step) => LEFT + ((WIDTH - LEFT - 8) * step) / lastStep;
  const y = (loss) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * loss) / top;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label(train, valid) });
  for (let i = 0; i <= NUM_LINES; i++) {
    const loss = (top * i) / NUM_LINES;
    drawing.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: y(loss), y2: y(loss) }));
    drawing.append(svg("text", { x: LEFT - 6, y: y(loss) + 4, "text-anchor": "end" }, loss.toPrecision(2)));
  }
  drawing.append(svg("text", { x: x(0), y: HEIGHT - 6 }, "0"));
  drawing.append(svg("text", { x: x(lastStep), y: HEIGHT - 6, "text-anchor": "end" }, `${lastStep} steps`));
  for (const [name, series] of [["train", train], ["valid", valid]]) {
    const path = series.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
    drawing.append(svg("polyline", { class: `curve ${name}`, points: path }));
  }
  const names = valid.length ? [entry("train", "training loss"), entry("valid", "validation loss")] : [entry("train", "training loss")];
  return [drawing, h("figcaption", { class: "hint" }, ...names)];
}

const points = (metrics, name) =>
  metrics.filter((data) => Number.isFinite(data[name])).map((data) => [data.step, data[name]]);

const entry = (name, text) => h("span", { class: `key-of ${name}` }, text);

function label(train, valid) {
  const words = [`Training loss from ${train[0][1].toFixed(2)} to ${train.at(-1)[1].toFixed(2)}`];
  if (valid.length) words.push(`validation loss at last ${valid.at(-1)[1].toFixed(2)}`);
  return words.join(", ");
}

function svg(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}
