/** A stream's bytes to JSON values: one a line, or server-sent events. Knows no dialect. */

import { Refused, told } from "./server.js";

export async function* jsonLines(stream) {
  for await (const line of lines(stream)) {
    if (line) yield value(line);
  }
}

/** The values of `data:` lines, up to [DONE]. Each of ours is one line long. */
export async function* serverEvents(stream) {
  for await (const line of lines(stream)) {
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    if (data && data !== "[DONE]") yield value(data);
  }
}

async function* lines(stream) {
  let rest = "";
  for await (const piece of pieces(stream)) {
    const parts = (rest + piece).split("\n");
    rest = parts.pop();
    for (const part of parts) yield part.replace(/\r$/, "");
  }
  if (rest) yield rest;
}

/** Not every browser iterates a stream by itself. */
async function* pieces(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A stream that breaks says so in its last value. */
function value(text) {
  const said = JSON.parse(text);
  const broken = told(said);
  if (broken) throw new Refused(200, broken);
  return said;
}
