// How many records there were, by time.

/** @typedef {import('../types').Event} Event */
/** @typedef {import('../types').Events} Events */

/**
 * Moves counts on to a later window, with what came.
 * @param {Events} found
 * @param {number} start
 * @param {number} finish
 * @param {Event[]} came
 */
export function advance(found, start, finish, came) {
  const parts = found.counts.length;
  const step = (finish - start) / Math.max(1, parts);
  const gone = Math.floor((start - found.start) / step);
  if (gone > 0 && parts) {
    found.counts = [...found.counts.slice(gone), ...Array.from({ length: Math.min(gone, parts) }, () => /** @type {[number, number]} */ ([0, 0]))];
    found.start += gone * step;
    found.finish = found.start + parts * step;
  }
  for (const record of came) {
    if (record.missed !== undefined) continue;
    const at = Math.min(parts - 1, Math.floor((Number(BigInt(record.time) / 1000n) / 1e6 - found.start) / step));
    const count = found.counts[at];
    if (count) {
      count[0] += 1;
      if (record.failed) count[1] += 1;
    }
  }
}
