// Elements by a call.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element: `class`, `text`, `on…` handlers, properties that have a name of their own, attributes otherwise.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  append(element, children);
  return element;
}

/**
 * The same within a drawing.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  set(element, props);
  append(element, children);
  return element;
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Record<string, any>} props
 */
export function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (name === 'text') element.textContent = String(value);
    else if (name.startsWith('on') && typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in element) element.value = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === 'number' ? String(child) : child);
  }
}

/**
 * Puts these in place of what is in an element, unless the same are there.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  const wanted = children.filter((child) => child instanceof Node);
  const same = wanted.length === children.length && wanted.length === element.childNodes.length
    && wanted.every((child, at) => element.childNodes[at] === child);
  if (same) return;
  element.textContent = '';
  append(element, children);
}

/**
 * The element of this id, which the page has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no #${id}`);
  return element;
}
