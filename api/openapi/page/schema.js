// JSON schemas as lists of fields; nested objects are collapsed.

const MAX_DEPTH = 6;

/** Create an element with attributes and children; a string child becomes a text node, never HTML. */
export function element(name, attributes, children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** The parts of a description: those between backticks are code. */
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, [part]) : part));
}

/** A list of the fields of `schema`; empty if it has none. */
export function fields(schema, root, depth = 0) {
  const list = element("dl", {}, []);
  if (depth > MAX_DEPTH) return list;
  for (const object of objects(schema, root)) {
    if (object.description) list.append(element("dd", { class: "about" }, prose(object.description)));
    for (const [name, field] of Object.entries(object.properties ?? {})) {
      list.append(...fieldEntry(name, field, (object.required ?? []).includes(name), root, depth));
    }
  }
  return list;
}

function fieldEntry(name, field, isRequired, root, depth) {
  const head = [element("code", {}, [name]), " ", element("span", { class: "type" }, [kind(field)])];
  if (isRequired) head.push(" ", element("span", { class: "required" }, ["required"]));
  else if (field.default !== undefined && field.default !== null) head.push(" ", element("span", { class: "type" }, [`= ${JSON.stringify(field.default)}`]));
  const lines = [element("dt", {}, head)];
  if (field.description) lines.push(element("dd", {}, prose(field.description)));
  if (objects(field, root).length) {
    const inner = element("details", {}, [element("summary", {}, ["fields"])]);
    inner.addEventListener("toggle", () => inner.children.length < 2 && inner.append(fields(field, root, depth + 1)));
    lines.push(element("dd", {}, [inner]));
  }
  return lines;
}

/** The object schemas that `schema` allows, also as items of a list. */
function objects(schema, root) {
  if (schema.$ref) return objects(root.components.schemas[refName(schema)], root);
  if (schema.properties) return [schema];
  if (schema.items) return objects(schema.items, root);
  return (schema.anyOf ?? []).flatMap((each) => objects(each, root));
}

/** The type of `schema` in words: string, list of Message, Tool or null. */
export function kind(schema) {
  if (schema.$ref) return refName(schema);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kind))].join(" or ");
  if (schema.type === "array") return schema.items ? `list of ${kind(schema.items)}` : "list";
  return schema.type ?? "anything";
}

function refName(schema) {
  return schema.$ref.split("/").pop();
}
