// Colours of services: the same for the same name, wherever it is shown.

import { COLOURS } from './chart.js';

/** @type {Map<string, number>} */
const known = new Map();

/**
 * The colour of a service.
 * @param {string} name
 */
export function hue(name) {
  if (!known.has(name)) known.set(name, known.size % COLOURS);
  return `var(--line-${known.get(name)})`;
}
