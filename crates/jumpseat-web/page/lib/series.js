// Lines of values, put side by side.

/** @typedef {import('../types').Line} Line */
/** @typedef {import('../types').Series} Series */

/**
 * A column of times and a column a line, as uPlot takes them: `null` where values are missing, `undefined` where a line has no point
 * at that time.
 * @param {number[][]} times
 * @param {(number | null)[][]} values
 * @returns {[number[], ...(number | null | undefined)[][]]}
 */
export function join(times, values) {
  const first = times[0];
  if (first && times.every((other) => other === first || same(other, first))) return [first, ...values];
  const all = [...new Set(times.flat())].sort((one, other) => one - other);
  const place = new Map(all.map((time, at) => [time, at]));
  const columns = values.map((column, line) => {
    /** @type {(number | null | undefined)[]} */
    const joined = new Array(all.length).fill(undefined);
    times[line]?.forEach((time, at) => { joined[/** @type {number} */ (place.get(time))] = column[at]; });
    return joined;
  });
  return [all, ...columns];
}

/**
 * @param {number[]} one
 * @param {number[]} other
 */
function same(one, other) {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/**
 * What is to be said of a line.
 * @param {Line} line
 */
export function stats(line) {
  let [count, sum, min, max] = [0, 0, Infinity, -Infinity];
  /** @type {number | null} */
  let last = null;
  line.avg.forEach((value, at) => {
    if (value === null) return;
    count += 1;
    sum += value;
    min = Math.min(min, line.min?.[at] ?? value);
    max = Math.max(max, line.max?.[at] ?? value);
    last = value;
  });
  return count ? { last, min, avg: sum / count, max } : null;
}

/**
 * What a line is called: the instance, or the metric where there is none; both where lines of several are together.
 * @param {Series} series
 * @param {Line} line
 * @param {boolean} together
 */
export function title(series, line, together) {
  if (!line.name) return series.expr;
  return together ? `${series.expr}[${line.name}]` : line.name;
}
