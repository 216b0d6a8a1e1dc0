// Charts: uPlot in the page's colours.

import uPlot from '../vendor/uPlot.esm.js';
import { clock, number } from './format.js';

/** @typedef {import('../types').Shown} Shown */

export const COLOURS = 10;
const HEIGHT = 180;
/** Steps between marks of sizes. */
const POWERS = Array.from({ length: 80 }, (_, at) => 2 ** (at - 10));

/** What all charts of a view have in common: the place of the mouse. */
export const together = () => uPlot.sync(`charts-${Math.random()}`);

/**
 * A colour of the style sheet, as it is now.
 * @param {string} name
 */
export function colour(name) {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/**
 * The same, as transparent as said.
 * @param {string} value
 * @param {number} alpha
 */
function faint(value, alpha) {
  const parts = value.match(/[\d.]+/g) ?? ['0', '0', '0'];
  return `rgba(${parts.slice(0, 3).join(',')},${alpha})`;
}

/** A line, and the number of its colour. @typedef {{ label: string, colour: number, show: boolean, band: boolean }} Drawn */

/**
 * A chart that fills an element.
 * @param {HTMLElement} element
 * @param {{ sync: uPlot.SyncPubSub, zoomed: (from: number, to: number) => void, pointed: (at: number | null) => void }} options
 */
export function chart(element, { sync, zoomed, pointed }) {
  /** @type {uPlot | null} */
  let plot = null;
  let shape = '';
  /** @type {[number, number]} */
  let window = [0, 1];
  const observer = new ResizeObserver(() => {
    if (plot && element.clientWidth) plot.setSize({ width: element.clientWidth, height: HEIGHT });
  });
  observer.observe(element);

  /**
   * @param {Drawn[]} lines
   * @param {Shown | undefined} shown
   */
  const build = (lines, shown) => {
    plot?.destroy();
    const axis = { stroke: colour('--dim'), grid: { stroke: colour('--grid'), width: 1 }, ticks: { stroke: colour('--grid'), width: 1, size: 4 }, font: '12px system-ui, sans-serif' };
    /** @type {uPlot.Series[]} */
    const series = [{}];
    /** @type {uPlot.Band[]} */
    const bands = [];
    for (const line of lines) {
      const stroke = colour(`--line-${line.colour % COLOURS}`);
      series.push({ label: line.label, stroke, width: 1.5, show: line.show, points: { show: dots } });
    }
    for (const line of lines.filter((line) => line.band)) {
      const stroke = colour(`--line-${line.colour % COLOURS}`);
      const edge = { stroke: 'transparent', width: 0, show: line.show, points: { show: false } };
      bands.push({ series: [series.length, series.length + 1], fill: faint(stroke, 0.2) });
      series.push({ ...edge, label: `${line.label} max` }, { ...edge, label: `${line.label} min` });
    }
    plot = new uPlot({
      width: element.clientWidth || 600,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      cursor: {
        sync: { key: sync.key },
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
      },
      scales: { x: { time: true, range: () => window }, y: { range: limits } },
      axes: [
        { ...axis, values: (_, splits, __, ___, step) => times(splits, step), space: 90, size: (_, texts) => (texts?.some((text) => text.includes('\n')) ? 44 : 28) },
        { ...axis, values: (_, splits) => splits.map((value) => number(value, shown ? { ...shown, whole: false } : undefined)), size: 62, ...(shown?.style === 'binary' ? { incrs: POWERS } : {}) },
      ],
      hooks: {
        setSelect: [(self) => {
          if (self.select.width < 4) return;
          zoomed(self.posToVal(self.select.left, 'x'), self.posToVal(self.select.left + self.select.width, 'x'));
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        setCursor: [(self) => pointed(self.cursor.idx ?? null)],
      },
    }, [[]], element);
  };

  return {
    /**
     * @param {Drawn[]} lines
     * @param {Shown | undefined} shown
     * @param {[number[], ...(number | null | undefined)[][]]} data those of the lines, then largest and least of those with a band
     * @param {[number, number]} between
     */
    draw(lines, shown, data, between) {
      const wanted = JSON.stringify([lines.map(({ label, colour, band }) => [label, colour, band]), shown]);
      if (!plot || wanted !== shape) {
        build(lines, shown);
        shape = wanted;
      }
      window = between;
      const drawn = /** @type {uPlot} */ (plot);
      drawn.batch(() => {
        lines.forEach((line, at) => {
          if (drawn.series[at + 1]?.show !== line.show) drawn.setSeries(at + 1, { show: line.show });
        });
        drawn.setData(/** @type {uPlot.AlignedData} */ (data), true);
      });
    },
    /** Other colours: it is made anew when it is drawn next. */
    recolour() { shape = ''; },
    close() {
      observer.disconnect();
      plot?.destroy();
    },
  };
}

/**
 * Points are shown where lines cannot be: few values, or one between gaps.
 * @param {uPlot} self
 * @param {number} _at
 * @param {number} from
 * @param {number} to
 */
function dots(self, _at, from, to) {
  return to - from < self.width / 24;
}

/**
 * From zero, if zero is near, with some air.
 * @param {uPlot} _self
 * @param {number | null} min
 * @param {number | null} max
 * @returns {[number, number]}
 */
function limits(_self, min, max) {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const low = min > 0 && min < max * 0.6 ? 0 : min;
  const high = max < 0 && max > min * 0.6 ? 0 : max;
  if (low === high) return low === 0 ? [0, 1] : [Math.min(low * 0.9, low * 1.1), Math.max(low * 0.9, low * 1.1)];
  const air = (high - low) * 0.08;
  return [low === 0 ? 0 : low - air, high === 0 ? 0 : high + air];
}

/**
 * @param {number[]} splits
 * @param {number} step
 */
function times(splits, step) {
  let shown = '';
  return splits.map((time) => {
    const date = new Date(time * 1000);
    const day = `${date.getMonth() + 1}/${date.getDate()}`;
    const text = step >= 86400 ? day : step >= 60 ? clock(time).slice(0, 5) : step >= 1 ? clock(time) : clock(time, 1);
    // The day where it begins, and at the first.
    const dated = step < 86400 && shown !== day && step >= 3600 ? `${text}\n${day}` : text;
    shown = day;
    return dated;
  });
}
