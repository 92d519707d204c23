// The page /docs: one section for each tag of openapi.json, one collapsible entry for each route.

import { element, fields, kind, prose } from "./schema.js";

const document_ = await (await fetch("openapi.json")).json();
const routes = Object.entries(document_.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, route]) => ({ path, method, ...route })),
);
const tags = document_.tags.filter((tag) => routes.some((route) => route.tags.includes(tag.name)));

document.getElementById("about").textContent = `${document_.info.version} · ${document_.info.description}`;
document
  .getElementById("contents")
  .append(...tags.map((tag) => element("a", { href: `#${slug(tag.name)}` }, [tag.name])));
document.getElementById("routes").append(...tags.map(section));
document.getElementById("find").addEventListener("input", (event) => find(event.target.value.toLowerCase()));

function slug(text) {
  return text.replaceAll(" ", "-");
}

function section(tag) {
  const tagged = routes.filter((route) => route.tags.includes(tag.name));
  const heading = element("h2", { id: slug(tag.name) }, [tag.name]);
  return element("section", {}, [heading, element("p", {}, prose(tag.description)), ...tagged.map(entry)]);
}

/** A collapsed entry for a route; its details are rendered when it is first opened. */
function entry(route) {
  const summary = element("summary", {}, [
    element("span", { class: "method" }, [route.method.toUpperCase()]),
    element("span", { class: "path" }, [route.path]),
    element("span", { class: "what" }, [route.summary]),
  ]);
  const details = element("details", { class: "route" }, [summary]);
  details.addEventListener("toggle", () => details.open && !details.lastChild.matches("div") && details.append(contents(route)));
  return details;
}

function contents(route) {
  const children = [];
  if (route.description) children.push(element("p", {}, prose(route.description)));
  for (const parameter of route.parameters) {
    children.push(element("p", {}, [element("code", {}, [parameter.name]), ` in the ${parameter.in}. `, ...prose(parameter.description ?? "")]));
  }
  const body = route.requestBody?.content["application/json"].schema;
  if (body) children.push(element("h3", {}, ["Request body"]), fields(body, document_), ...example(route));
  for (const [status, response] of Object.entries(route.responses)) {
    children.push(element("h3", {}, [`${status} · ${response.description}`]));
    for (const [media, { schema }] of Object.entries(response.content ?? {})) {
      children.push(element("p", {}, [element("code", {}, [media]), " ", element("span", { class: "type" }, [kind(schema)])]));
      if (media === "application/json") children.push(fields(schema, document_));
    }
  }
  return element("div", {}, children);
}

function example(route) {
  const url = `${location.origin}${route.path}`;
  const body = route.requestBody.content["application/json"].example;
  if (!body) return [];
  const command = `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  return [element("h3", {}, ["Example"]), element("pre", {}, [command])];
}

function find(word) {
  for (const entry of document.querySelectorAll(".route")) {
    entry.hidden = !entry.querySelector("summary").textContent.toLowerCase().includes(word);
  }
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !section.querySelector(".route:not([hidden])");
  }
}
