/** A request as a command to paste into a terminal. */

/** The key is not in it: it is taken from the variable API_KEY. */
export function command({ path, body }, { keyed }) {
  const address = new URL(`.${path}`, document.baseURI);
  const options = [body.stream || path.endsWith("_stream") ? "-N " : "-s ", quoted(address.href)];
  const lines = [`curl ${options.join("")}`, `-H 'Content-Type: application/json'`];
  if (keyed) lines.push('-H "Authorization: Bearer $API_KEY"');
  lines.push(`-d ${quoted(JSON.stringify(body, null, 2))}`);
  return lines.join(" \\\n  ");
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
