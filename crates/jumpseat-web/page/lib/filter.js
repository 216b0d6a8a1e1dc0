// Tests of the filter language (docs/filter.md).

const PLAIN = /^[\p{L}_][\p{L}\p{N}_]*(\.[\p{L}\p{N}_]+)*$/u;
const WORDS = new Set(['and', 'or', 'not', 'in', 'exists', 'true', 'false', 'start', 'end', 'point']);

/**
 * The test that a field has a value.
 * @param {string} field
 * @param {string | number | boolean} value
 */
export function test(field, value) {
  const name = PLAIN.test(field) && /^[\x20-\x7e]*$/.test(field) && !WORDS.has(field) ? field : `\`${field.replace(/[\\`]/g, '\\$&')}\``;
  const text = typeof value === 'string' ? `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t')}"` : String(value);
  return `${name} == ${text}`;
}

/**
 * A filter that passes what passes both.
 * @param {string} one
 * @param {string} other
 */
export function both(one, other) {
  if (!one.trim() || one.trim() === '*' || one.trim() === 'true') return other;
  return /\|\||\bor\b/.test(one) ? `(${one}) && ${other}` : `${one} && ${other}`;
}
