/** Helpers for creating elements, finding them and copying text. */

/**
 * h("p", {class: "hint"}, "text") creates an element. `class`, `for`, `role` and names with a dash are HTML
 * attributes; all others are DOM properties. A child may be null.
 */
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

/** A bar of the class `name` that fills this share of its track, 0 to 1. */
export function shareBar(name, share) {
  const element = h("i", { class: name });
  element.style.width = `${Math.min(100, share * 100)}%`;
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Copy `text` and confirm it on the button. If the clipboard is not accessible, select `textElement`. */
export async function copy(text, button, textElement) {
  try {
    await navigator.clipboard.writeText(text);
    flash(button, "Copied");
  } catch {
    if (textElement) getSelection().selectAllChildren(textElement);
    flash(button, textElement ? "Selected" : "Not allowed");
  }
}

function flash(button, message) {
  const label = button.textContent;
  button.textContent = message;
  button.disabled = true;
  setTimeout(() => {
    button.textContent = label;
    button.disabled = false;
  }, 1200);
}
