// JSON schemas as lists of fields, those of nested objects folded inside.

const DEEPEST = 6;

/** An element with attributes and children; children that are text stay text. */
export function element(name, attributes, children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The fields of what `schema` describes; empty where it has none. */
export function fields(schema, root, depth = 0) {
  const list = element("dl", {}, []);
  if (depth > DEEPEST) return list;
  for (const object of objects(schema, root)) {
    if (object.description && depth) list.append(element("dd", {}, [object.description]));
    for (const [name, field] of Object.entries(object.properties ?? {})) {
      list.append(...entry(name, field, (object.required ?? []).includes(name), root, depth));
    }
  }
  return list;
}

function entry(name, field, needed, root, depth) {
  const head = [element("code", {}, [name]), " ", element("span", { class: "type" }, [kind(field)])];
  if (needed) head.push(" ", element("span", { class: "needed" }, ["required"]));
  else if (field.default !== undefined && field.default !== null) head.push(" ", element("span", { class: "type" }, [`= ${JSON.stringify(field.default)}`]));
  const lines = [element("dt", {}, head)];
  if (field.description) lines.push(element("dd", {}, [field.description]));
  if (objects(field, root).length) {
    const inner = element("details", {}, [element("summary", {}, ["its fields"])]);
    inner.addEventListener("toggle", () => inner.children.length < 2 && inner.append(fields(field, root, depth + 1)));
    lines.push(element("dd", {}, [inner]));
  }
  return lines;
}

/** The objects that may stand where `schema` is asked, those in lists too. */
function objects(schema, root) {
  if (schema.$ref) return objects(root.components.schemas[named(schema)], root);
  if (schema.properties) return [schema];
  if (schema.items) return objects(schema.items, root);
  return (schema.anyOf ?? []).flatMap((each) => objects(each, root));
}

/** What may stand there, in a few words: string, list of Message, Tool or null. */
export function kind(schema) {
  if (schema.$ref) return named(schema);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kind))].join(" or ");
  if (schema.type === "array") return schema.items ? `list of ${kind(schema.items)}` : "list";
  return schema.type ?? "anything";
}

function named(schema) {
  return schema.$ref.split("/").pop();
}
