// Where the page is: behind the # of its address, so that it can be linked.

/** @typedef {import('../types').Route} Route */

/**
 * Reads `#/view?name=value`.
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
  const text = hash.replace(/^#?\/?/, '');
  const at = text.indexOf('?');
  const view = at < 0 ? text : text.slice(0, at);
  const query = at < 0 ? '' : text.slice(at + 1);
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * The same back. Parameters without a value are left out.
 * @param {string} view
 * @param {Record<string, string | null | undefined>} params
 */
export function format(view, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value) query.set(name, value);
  }
  // As readable as it can be.
  const text = query.toString().replaceAll('%3A', ':').replaceAll('%2F', '/').replaceAll('%2C', ',');
  return `#/${view}${text ? `?${text}` : ''}`;
}

/**
 * A window of time: from and to, seconds since the epoch, or not above 0, counted back from the end.
 * @param {Record<string, string>} params
 * @param {number} [length] seconds, if nothing is said
 */
export function range(params, length = 300) {
  const number = (/** @type {string | undefined} */ text, /** @type {number} */ otherwise) => {
    const value = Number(text);
    return text && Number.isFinite(value) ? value : otherwise;
  };
  const from = number(params.from, -length);
  const to = number(params.to, 0);
  return { from, to, live: to <= 0 };
}

/**
 * A number of seconds in an address.
 * @param {number} seconds
 */
export function stamp(seconds) {
  return String(Math.round(seconds * 1000) / 1000);
}
