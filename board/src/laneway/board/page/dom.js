// Builds elements from data. Texts become text nodes and attribute values only: nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "rect", "polyline", "title", "line"]);

/** Returns an element. An attribute that is null, undefined or false is left out; children may be arrays, and empty ones are skipped. */
export function h(name, attributes = {}, ...children) {
  const element = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
  return element;
}

/** Makes the children of an element equal to the given ones. What is equal already stays, with its focus, selection and scroll position. */
export function update(parent, ...children) {
  const wanted = document.createDocumentFragment();
  wanted.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
  const focused = document.activeElement;
  morphChildren(parent, wanted);
  if (focused !== document.activeElement && focused?.isConnected) {
    focused.focus({ preventScroll: true }); // it was moved, as a row is when it is sorted
  }
}

function morphChildren(parent, wanted) {
  const kept = new Set([...wanted.childNodes].map(keyOf));
  const keyed = new Map();
  for (const child of [...parent.childNodes]) {
    const key = keyOf(child);
    if (key && !kept.has(key)) {
      child.remove();
    } else if (key) {
      keyed.set(key, child);
    }
  }
  let current = parent.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : current;
    if (!match || (!key && keyOf(match)) || match.nodeName !== next.nodeName) {
      parent.insertBefore(next, current);
      continue;
    }
    if (match === current) {
      current = current.nextSibling;
    } else {
      parent.insertBefore(match, current);
    }
    morph(match, next);
  }
  while (current) {
    const following = current.nextSibling;
    current.remove();
    current = following;
  }
}

function morph(element, wanted) {
  if (element.nodeType === Node.TEXT_NODE) {
    if (element.data !== wanted.data) {
      element.data = wanted.data;
    }
    return;
  }
  for (const { name } of [...element.attributes]) {
    if (!wanted.hasAttribute(name)) {
      element.removeAttribute(name);
    }
  }
  for (const { name, value } of wanted.attributes) {
    if (element.getAttribute(name) !== value) {
      element.setAttribute(name, value);
    }
  }
  morphChildren(element, wanted);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}
