// Numbers and times as people read them. Numbers are those of `jumpseat top` (crates/jumpseat-tools/src/measure.rs).

/** @typedef {import('../types').Shown} Shown */

const DECIMAL = 'kMGTPEZY';
const BINARY = 'KMGTPEZY';

/**
 * A value, without its unit.
 * @param {number | null | undefined} value
 * @param {Pick<Shown, 'style' | 'whole'>} [shown]
 */
export function number(value, shown = { style: 'decimal', whole: false }) {
  if (value === null || value === undefined) return '–';
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return 'inf';
  switch (shown.style) {
    case 'binary': return scaled(value, 1024, BINARY, shown.whole);
    case 'duration': return duration(value);
    case 'percent':
      return Math.abs(value) < 1000 ? `${digits(value * 100)}%` : `${scaled(value * 100, 1000, DECIMAL, false)}%`;
    default: return scaled(value, 1000, DECIMAL, shown.whole);
  }
}

/**
 * What stands behind a number; a duration and a share have theirs in it.
 * @param {Shown | undefined} shown
 */
export function unit(shown) {
  if (!shown || shown.style === 'percent' || shown.style === 'duration') return '';
  return shown.unit.replace('count / sec', '/ s').replace(' / sec', '/s');
}

/**
 * Three significant digits; more before the point if there are more.
 * @param {number} value
 */
function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 0.0005) return value.toExponential(0).replace('e+', 'e');
  if (size < 0.0995) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return value.toFixed(0);
}

/**
 * @param {number} value
 * @param {number} step
 * @param {string} suffixes
 * @param {boolean} whole
 */
function scaled(value, step, suffixes, whole) {
  if (Math.abs(value) < (step === 1000 ? 9999.5 : 1023.5)) {
    return whole && Number.isInteger(value) ? value.toFixed(0) : digits(value);
  }
  let rest = value;
  for (const suffix of suffixes) {
    rest /= step;
    if (Math.abs(rest) < step - 0.5) return digits(rest) + suffix;
  }
  return value.toExponential(0).replace('e+', 'e');
}

/**
 * A time in three digits with a unit, longer ones in two units.
 * @param {number} seconds
 */
export function duration(seconds) {
  const size = Math.abs(seconds);
  const pair = (/** @type {number} */ large, /** @type {number} */ small, /** @type {string} */ one, /** @type {string} */ two) => {
    const whole = Math.floor(size / small);
    const parts = large / small;
    return `${seconds < 0 ? '-' : ''}${Math.floor(whole / parts)}${one}${String(whole % parts).padStart(2, '0')}${two}`;
  };
  if (size < 0.0995e-9) return '0';
  if (size < 0.9995e-6) return `${digits(seconds * 1e9)}ns`;
  if (size < 0.9995e-3) return `${digits(seconds * 1e6)}us`;
  if (size < 0.9995) return `${digits(seconds * 1e3)}ms`;
  if (size < 60) return `${digits(seconds)}s`;
  if (size < 3600) return pair(60, 1, 'm', 's');
  if (size < 86400) return pair(3600, 60, 'h', 'm');
  if (size < 8.64e6) return pair(86400, 3600, 'd', 'h');
  if (size < 8.64e9) return `${(seconds / 86400).toFixed(0)}d`;
  return `${(seconds / 86400).toExponential(0).replace('e+', 'e')}d`;
}

/**
 * Bytes.
 * @param {number} count
 */
export function bytes(count) {
  return `${scaled(count, 1024, BINARY, true)}B`;
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/**
 * A day in the zone of the browser.
 * @param {number} seconds
 */
export function day(seconds) {
  const time = new Date(seconds * 1000);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

/**
 * A time of the day, with so many digits of the second.
 * @param {number} seconds
 * @param {number} [fraction]
 */
export function clock(seconds, fraction = 0) {
  const time = new Date(seconds * 1000);
  const text = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  if (!fraction) return text;
  const part = Math.floor((seconds - Math.floor(seconds)) * 10 ** fraction);
  return `${text}.${String(part).padStart(fraction, '0')}`;
}

/**
 * Day and time.
 * @param {number} seconds
 */
export function moment(seconds) {
  return `${day(seconds)} ${clock(seconds)}`;
}

/**
 * From when to when.
 * @param {number} start
 * @param {number} finish
 */
export function span(start, finish) {
  return day(start) === day(finish) ? `${moment(start)} – ${clock(finish)}` : `${moment(start)} – ${moment(finish)}`;
}

/**
 * How long ago, in one word.
 * @param {number} seconds
 */
export function ago(seconds) {
  if (seconds < 1.5) return 'just now';
  return `${seconds < 60 ? `${Math.floor(seconds)}s` : duration(seconds)} ago`;
}
