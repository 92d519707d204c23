/** Elements in few words. */

/** h("p", {class: "says"}, "text"): properties as in JavaScript; `class` and what has a dash as in HTML. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.includes("-") || name === "for" || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Copy, and say so on the button for a moment. Where the clipboard is closed to pages, select the text. */
export async function copy(text, button, shown) {
  try {
    await navigator.clipboard.writeText(text);
    flash(button, "Copied");
  } catch {
    if (shown) getSelection().selectAllChildren(shown);
    flash(button, shown ? "Selected" : "Not allowed");
  }
}

function flash(button, word) {
  const before = button.textContent;
  button.textContent = word;
  button.disabled = true;
  setTimeout(() => {
    button.textContent = before;
    button.disabled = false;
  }, 1200);
}
