// The page: one section for each dialect, one fold for each route, drawn from openapi.json.

import { element, fields, kind } from "./schema.js";

const document_ = await (await fetch("openapi.json")).json();
const routes = Object.entries(document_.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, route]) => ({ path, method, ...route })),
);
const tags = document_.tags.map((tag) => tag.name).filter((tag) => routes.some((route) => route.tags.includes(tag)));

document.getElementById("about").textContent = `${document_.info.version} · ${document_.info.description}`;
document
  .getElementById("contents")
  .append(...tags.map((tag) => element("a", { href: `#${slug(tag)}` }, [tag])));
document.getElementById("routes").append(...tags.map(section));
document.getElementById("find").addEventListener("input", (event) => find(event.target.value.toLowerCase()));

function slug(text) {
  return text.replaceAll(" ", "-");
}

function section(tag) {
  const own = routes.filter((route) => route.tags.includes(tag));
  return element("section", {}, [element("h2", { id: slug(tag) }, [tag]), ...own.map(fold)]);
}

/** A closed line for a route; what it takes and gives is drawn when it is opened. */
function fold(route) {
  const line = element("summary", {}, [
    element("span", { class: "method" }, [route.method.toUpperCase()]),
    element("span", { class: "path" }, [route.path]),
    element("span", { class: "what" }, [route.summary]),
  ]);
  const details = element("details", { class: "route" }, [line]);
  details.addEventListener("toggle", () => details.open && !details.lastChild.matches("div") && details.append(told(route)));
  return details;
}

function told(route) {
  const parts = [];
  if (route.description) parts.push(element("p", {}, [route.description]));
  for (const parameter of route.parameters) {
    parts.push(element("p", {}, [element("code", {}, [parameter.name]), ` in the ${parameter.in}. `, parameter.description ?? ""]));
  }
  const taken = route.requestBody?.content["application/json"].schema;
  if (taken) parts.push(element("h3", {}, ["Takes"]), fields(taken, document_), ...example(route));
  for (const [status, response] of Object.entries(route.responses)) {
    parts.push(element("h3", {}, [`${status} · ${response.description}`]));
    for (const [media, { schema }] of Object.entries(response.content ?? {})) {
      parts.push(element("p", {}, [element("code", {}, [media]), " ", element("span", { class: "type" }, [kind(schema)])]));
      if (media === "application/json") parts.push(fields(schema, document_));
    }
  }
  return element("div", {}, parts);
}

function example(route) {
  const url = `${location.origin}${route.path}`;
  const body = route.requestBody.content["application/json"].example;
  if (!body) return [];
  const command = `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  return [element("h3", {}, ["For example"]), element("pre", {}, [command])];
}

function find(word) {
  for (const fold of document.querySelectorAll(".route")) {
    fold.hidden = !fold.querySelector("summary").textContent.toLowerCase().includes(word);
  }
  for (const part of document.querySelectorAll("section")) {
    part.hidden = !part.querySelector(".route:not([hidden])");
  }
}
