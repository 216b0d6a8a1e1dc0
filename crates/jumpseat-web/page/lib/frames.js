// The places of frames in a flame graph.

/** @typedef {import('../types').Frame} Frame */
/** @typedef {{ frame: Frame, path: string[], depth: number, from: number, to: number }} Block */

/** What is narrower than this part of the whole is not drawn. */
const LEAST = 0.0015;

/**
 * The frames with their places, below the one of a path, which is the whole.
 * @param {Frame} root
 * @param {string[]} path
 * @returns {Block[]}
 */
export function blocks(root, path) {
  /** @type {Block[]} */
  const all = [];
  let top = root;
  /** @type {string[]} */
  const above = [];
  for (const name of path) {
    const child = top.children.find((one) => one.name === name);
    if (!child) break;
    all.push({ frame: top, path: [...above], depth: above.length, from: 0, to: 1 });
    above.push(name);
    top = child;
  }
  const place = (/** @type {Frame} */ frame, /** @type {string[]} */ at, /** @type {number} */ from, /** @type {number} */ to) => {
    if (to - from < LEAST) return;
    all.push({ frame, path: at, depth: at.length, from, to });
    let next = from;
    for (const child of frame.children) {
      const width = ((to - from) * child.total) / Math.max(frame.total, Number.MIN_VALUE);
      place(child, [...at, child.name], next, next + width);
      next += width;
    }
  };
  if (top.total > 0) place(top, above, 0, 1);
  return all;
}
