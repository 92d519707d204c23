/** A request as a curl command to paste into a terminal. */

/** The command reads the API key from the variable API_KEY; it never contains the key itself. */
export function curlCommand({ path, body }, { needsKey }) {
  const url = new URL(`.${path}`, document.baseURI);
  const options = [body.stream || path.endsWith("_stream") ? "-N " : "-s ", shellQuote(url.href)];
  const lines = [`curl ${options.join("")}`, `-H 'Content-Type: application/json'`];
  if (needsKey) lines.push('-H "Authorization: Bearer $API_KEY"');
  lines.push(`-d ${shellQuote(JSON.stringify(body, null, 2))}`);
  return lines.join(" \\\n  ");
}

const shellQuote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
