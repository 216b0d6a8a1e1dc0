// Where the services of a map are: callers left of those that they call.

/**
 * The layer of each name, and its place there.
 * @param {string[]} names
 * @param {[string, string][]} calls
 * @returns {{ name: string, layer: number, place: number, of: number }[]}
 */
export function layers(names, calls) {
  /** @type {Map<string, number>} */
  const layer = new Map();
  const below = new Map(names.map((name) => [name, calls.filter(([from, to]) => from === name && to !== name).map(([, to]) => to)]));
  const visit = (/** @type {string} */ name, /** @type {number} */ depth, /** @type {Set<string>} */ above) => {
    // Those that call each other in a circle stay where they were found first.
    if (above.has(name) || !below.has(name) || depth > names.length || (layer.get(name) ?? -1) >= depth) return;
    layer.set(name, depth);
    const path = new Set(above).add(name);
    for (const other of below.get(name) ?? []) visit(other, depth + 1, path);
  };
  const called = new Set(calls.filter(([from, to]) => from !== to).map(([, to]) => to));
  for (const name of names) if (!called.has(name)) visit(name, 0, new Set());
  for (const name of names) if (!layer.has(name)) visit(name, 0, new Set());
  /** @type {Map<number, string[]>} */
  const columns = new Map();
  for (const name of names) {
    const at = layer.get(name) ?? 0;
    columns.set(at, [...(columns.get(at) ?? []), name]);
  }
  return names.map((name) => {
    const at = layer.get(name) ?? 0;
    const column = columns.get(at) ?? [];
    return { name, layer: at, place: column.indexOf(name), of: column.length };
  });
}
