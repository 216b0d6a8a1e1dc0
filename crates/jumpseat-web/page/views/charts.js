// Metrics and expressions over time.

import { ask, isAbort, poll, words } from '../lib/api.js';
import { chart, COLOURS, together } from '../lib/chart.js';
import { complete } from '../lib/complete.js';
import { fill, h, set } from '../lib/dom.js';
import { clock, moment, number, unit } from '../lib/format.js';
import { range } from '../lib/route.js';
import { join, stats, title } from '../lib/series.js';
import { timebar } from '../lib/timebar.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Samples} Samples */
/** @typedef {import('../types').Series} Series */
/** @typedef {import('../types').Line} Line */
/** @typedef {import('../types').Shown} Shown */

/** What is shown of a host if nothing is asked for: what it has of these. */
const USUAL = [
  '100 - 100 * rate(kernel.all.cpu.idle) / hinv.ncpu', 'kernel.all.load', 'mem.util.used', 'disk.all.total_bytes',
  'network.interface.in.bytes', 'jumpseat.event.count', 'jumpseat.span.p95',
];
/** The length of the window, seconds, if the address does not say. */
const BACK = 300;
/** @typedef {{ series: Series, line: Line, name: string, stats: ReturnType<typeof stats>, colour: number }} Coloured */
/** @typedef {{ name: string, cell: HTMLElement, column: (number | null | undefined)[], shown: Shown | undefined, last: number | null, one: Coloured }} Row */

/** Lines of a legend that are listed at first, and rows of a table. */
const FEW = 8;
const ROWS = 300;
/** Lines that have a band from the least to the largest value, at most: more would cover each other. */
const BANDS = 4;

/**
 * @param {App} app
 * @returns {import('../types').View}
 */
export function charts(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Samples | null} */
  let samples = null;
  let trouble = '';
  const sync = together();
  /** @type {Map<string, ReturnType<typeof panel>>} */
  let panels = new Map();

  const exprs = () => (params.expr ?? '').split('\n').filter(Boolean);
  const setExprs = (/** @type {string[]} */ list) => app.go({ expr: list.join('\n') });
  const add = (/** @type {string} */ text) => {
    if (!exprs().includes(text)) setExprs([...exprs(), text]);
  };
  const field = complete({
    label: 'Metric or expression', placeholder: 'Add a metric or an expression: kernel.all.load, rate(disk.all.read) …',
    source: () => params.source ?? '', done: add,
  });

  const tabled = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => app.go({ table: params.table ? null : '1' }), text: 'Table' });
  const merged = h('button', { type: 'button', 'aria-pressed': 'false', title: 'Metrics of the same unit in one chart', onclick: () => app.go({ join: params.join ? null : '1' }), text: 'Together' });
  const bar = timebar(app, BACK, merged, tabled);
  const { zoom } = bar;
  const notice = h('p', { class: 'notice', role: 'alert', hidden: true });
  const grid = h('div', { class: 'panels' });
  const element = h('div', { class: 'charts' },
    h('h1', { class: 'unseen', text: 'Charts' }),
    h('form', { class: 'bar', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); field.enter(); } },
      field.element, h('button', { type: 'submit', text: 'Add' })),
    bar.element,
    notice, grid);

  const draw = () => {
    bar.draw(params, samples);
    set(tabled, { 'aria-pressed': String(Boolean(params.table)) });
    set(merged, { 'aria-pressed': String(Boolean(params.join)) });
    const host = samples?.host;
    const problem = trouble || (host?.state === 'down' ? `${host.host ?? 'The host'} is down${host.since ? ` since ${clock(host.since)}` : ''}: ${host.problem ?? ''}` : '');
    if (notice.textContent !== problem) notice.textContent = problem;
    notice.hidden = !problem;
    if (!samples) return;
    const groups = grouped(samples.series, Boolean(params.join));
    const next = new Map();
    for (const [key, series] of groups) {
      const known = panels.get(key) ?? panel({
        sync, zoom,
        remove: (expr) => { setExprs(exprs().length ? exprs().filter((other) => other !== expr) : (samples?.series ?? []).map((one) => one.expr).filter((other) => other !== expr)); field.input.focus(); },
      });
      known.draw(series, samples, Boolean(params.table));
      next.set(key, known);
    }
    for (const [key, old] of panels) if (!next.has(key)) old.close();
    panels = next;
    fill(grid, ...[...panels.values()].map((one) => one.element));
    if (!panels.size) fill(grid, h('p', { class: 'note', text: 'Nothing of the usual is there: add a metric above.' }));
  };

  const poller = poll(async (signal) => {
    if (!params.source) return 1;
    const asked = exprs();
    const usual = !asked.length;
    const { from, to, live } = range(params, BACK);
    const width = Math.max(200, Math.min(1200, Math.round(grid.clientWidth / (grid.clientWidth > 1100 ? 2 : 1))));
    try {
      /** @type {Samples} */
      const answer = await ask('/page/samples', {
        source: params.source, expr: (usual ? USUAL : asked).join('\n'), start: from, finish: to, points: width,
      }, signal);
      if (usual) answer.series = answer.series.filter((series) => !series.error);
      samples = answer;
      trouble = '';
    } catch (error) {
      if (isAbort(error)) throw error;
      trouble = words(error);
      draw();
      return 3;
    }
    draw();
    if (!live) return null;
    return params.source.startsWith('host:') ? Math.max(1, -from / 300) : 10;
  });

  return {
    element,
    show(now) {
      const other = now.source !== params.source;
      const ask = other || ['expr', 'from', 'to'].some((name) => now[name] !== params[name]);
      params = now;
      if (other) samples = null;
      draw();
      if (ask) poller.now();
    },
    refresh() {
      for (const one of panels.values()) one.recolour();
      draw();
    },
    key(key) {
      switch (key) {
        case 'a': field.input.focus(); break;
        case 't': tabled.click(); break;
        case 'u': merged.click(); break;
        default: return bar.key(key);
      }
      return true;
    },
    keys: [['a', 'add a metric or an expression'], ['t', 'table'], ['u', 'metrics of the same unit together'], ...bar.keys],
    close() {
      poller.close();
      for (const one of panels.values()) one.close();
    },
  };
}

/**
 * Series that are in one chart.
 * @param {Series[]} all
 * @param {boolean} join
 * @returns {Map<string, Series[]>}
 */
function grouped(all, join) {
  const groups = new Map();
  for (const series of all) {
    const key = join && series.shown ? `${series.shown.style} ${series.shown.unit}` : series.expr;
    groups.set(key, [...(groups.get(key) ?? []), series]);
  }
  return groups;
}

/**
 * A chart with its legend.
 * @param {{ sync: any, zoom: (from: number, to: number) => void, remove: (expr: string) => void }} options
 */
function panel({ sync, zoom, remove }) {
  const heading = h('div', { class: 'heading' });
  const canvas = h('div', { class: 'canvas', role: 'img' });
  const legend = h('div', { class: 'legend' });
  const table = h('div', { class: 'scroll values', tabindex: '0' });
  const error = h('pre', { class: 'problem' });
  const note = h('p', { class: 'note' });
  const element = h('section', { class: 'panel' }, heading, error, canvas, legend, table, note);
  /** @type {Set<string>} */
  const hidden = new Set();
  let all = false;
  let titles = '';
  /** @type {Row[]} */
  let cells = [];
  let again = () => {};
  const drawing = chart(canvas, {
    sync, zoomed: zoom,
    pointed(at) {
      for (const { cell, column, shown, last } of cells) cell.textContent = number(at === null ? last : column[at] ?? null, shown);
    },
  });

  return {
    element,
    recolour: drawing.recolour,
    close: drawing.close,
    /**
     * @param {Series[]} group
     * @param {Samples} samples
     * @param {boolean} tabled
     */
    draw(group, samples, tabled) {
      again = () => this.draw(group, samples, tabled);
      const several = group.length > 1;
      const now = JSON.stringify(group.map((series) => [series.expr, series.shown]));
      if (now !== titles) {
        titles = now;
        fill(heading, ...group.flatMap((series) => [
          h('h2', {}, series.expr, series.shown ? h('span', { class: 'unit', text: what(series.shown) }) : null),
          h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${series.expr}`, title: 'Remove', onclick: () => remove(series.expr), text: '×' }),
        ]));
      }
      const failed = group.filter((series) => series.error).map((series) => (several ? `${series.expr}: ${series.error}` : series.error));
      error.textContent = failed.join('\n');
      error.hidden = !failed.length;
      const found = group.flatMap((series) => series.lines.map((line) => ({ series, line, name: title(series, line, several), stats: stats(line) })));
      found.sort((one, other) => (other.stats?.avg ?? -Infinity) - (one.stats?.avg ?? -Infinity));
      const byName = [...found].sort((one, other) => one.line.inst - other.line.inst || one.name.localeCompare(other.name));
      const lines = byName.map((one, at) => ({ ...one, colour: at % COLOURS }));
      const visible = lines.filter((one) => !hidden.has(one.name));
      const banded = (/** @type {Line} */ line) => Boolean(line.min) && visible.length <= BANDS;
      const bands = lines.filter((one) => banded(one.line));
      const data = join(
        [...lines.map((one) => one.line.t), ...bands.flatMap((one) => [one.line.t, one.line.t])],
        [...lines.map((one) => one.line.avg), ...bands.flatMap((one) => [one.line.max ?? [], one.line.min ?? []])],
      );
      const shown = group.find((series) => series.shown)?.shown;
      const texts = group.flatMap((series) => series.texts ?? []);
      canvas.hidden = tabled || !lines.length;
      legend.hidden = tabled || !lines.length;
      table.hidden = !tabled && !texts.length;
      set(canvas, { 'aria-label': `${group.map((series) => series.expr).join(', ')}: chart of ${lines.length} ${lines.length === 1 ? 'line' : 'lines'}; the button Table shows the values` });
      if (!canvas.hidden) {
        drawing.draw(lines.map((one) => ({ label: one.name, colour: one.colour, show: !hidden.has(one.name), band: banded(one.line) })), shown, data, [samples.start, samples.finish]);
      }
      const listed = [...lines].sort((one, other) => (other.stats?.avg ?? -Infinity) - (one.stats?.avg ?? -Infinity)).slice(0, all ? undefined : FEW);
      const rows = listed.map((one) => {
        const cell = h('td', { class: 'number now', text: number(one.stats?.last ?? null, one.series.shown) });
        const column = data[lines.indexOf(one) + 1] ?? [];
        return { name: one.name, cell, column, shown: one.series.shown, last: one.stats?.last ?? null, one };
      });
      cells = rows;
      if (!legend.hidden && !legend.matches(':focus-within')) drawLegend(rows);
      else if (!legend.hidden) updateLegend(rows);
      if (!table.hidden) drawTable(table, lines, data, texts, group);
      const more = group.reduce((sum, series) => sum + series.left_out, 0);
      const said = [
        more ? `${more} more instances are not shown` : '',
        group.some((series) => series.interpolated) ? 'interpolated: what was between the points does not show' : '',
        !lines.length && !texts.length && !failed.length ? 'no values in this window (yet)' : '',
      ].filter(Boolean).join('; ');
      if (note.textContent !== said) note.textContent = said;
      note.hidden = !said;

      /** @param {Row[]} rows */
      function drawLegend(rows) {
        const row = (/** @type {Row} */ { one, cell }) => {
          const swatch = h('i', { class: 'swatch' });
          swatch.style.background = `var(--line-${one.colour})`;
          return h('tr', { class: hidden.has(one.name) ? 'off' : '' },
            h('th', { scope: 'row' }, h('button', {
              type: 'button', class: 'line', 'aria-pressed': String(!hidden.has(one.name)), title: 'Show or hide',
              onclick: () => { if (!hidden.delete(one.name)) hidden.add(one.name); legend.dataset.again = one.name; focusAfter(one.name); },
            }, swatch, h('span', { text: one.name }))),
            cell, ...[one.stats?.min, one.stats?.avg, one.stats?.max].map((value) => h('td', { class: 'number', text: number(value ?? null, one.series.shown) })));
        };
        fill(legend, h('table', {},
          h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, h('span', { class: 'unseen', text: 'Line' })), ...['now', 'min', 'avg', 'max'].map((text) => h('th', { scope: 'col', class: 'number', text })))),
          h('tbody', {}, ...rows.map(row))),
          lines.length > FEW ? h('button', { type: 'button', class: 'quiet more', onclick: () => { all = !all; titles = ''; legend.blur(); drawAll(); }, text: all ? 'fewer' : `all ${lines.length}` }) : null);
      }

      /** @param {Row[]} rows */
      function updateLegend(rows) {
        const known = [...legend.querySelectorAll('tbody tr')];
        for (const row of rows) {
          const element = known.find((tr) => tr.querySelector('button')?.textContent === row.name);
          const cells = element?.querySelectorAll('td');
          if (!cells) continue;
          row.cell = cells[0] ?? row.cell;
          [row.one.stats?.last, row.one.stats?.min, row.one.stats?.avg, row.one.stats?.max].forEach((value, at) => {
            const cell = cells[at];
            if (cell) cell.textContent = number(value ?? null, row.shown);
          });
        }
      }

      function drawAll() {
        /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
        again();
        /** @type {HTMLElement | null} */ (legend.querySelector('.more'))?.focus();
      }

      /** @param {string} name */
      function focusAfter(name) {
        /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
        again();
        for (const button of legend.querySelectorAll('button')) if (button.textContent === name) button.focus();
      }
    },
  };
}

/** @param {Shown} shown */
function what(shown) {
  const text = unit(shown);
  if (shown.style === 'percent') return 'share of time';
  if (shown.style === 'duration') return 'time';
  return text || '';
}

/**
 * The values as a table: the newest first.
 * @param {HTMLElement} element
 * @param {{ name: string, series: Series }[]} lines
 * @param {[number[], ...(number | null | undefined)[][]]} data
 * @param {{ name: string, text: string }[]} texts
 * @param {Series[]} group
 */
function drawTable(element, lines, data, texts, group) {
  const [times, ...columns] = data;
  const first = Math.max(0, (times ?? []).length - ROWS);
  const rows = [];
  for (let at = (times ?? []).length - 1; at >= first; at -= 1) {
    rows.push(h('tr', {}, h('th', { scope: 'row', class: 'time', text: moment(times[at] ?? 0) }),
      ...lines.map((line, column) => h('td', { class: 'number', text: number(columns[column]?.[at] ?? null, line.series.shown) }))));
  }
  set(element, { 'aria-label': `Values of ${group.map((series) => series.expr).join(', ')}` });
  const top = element.scrollTop;
  fill(element,
    texts.length ? h('table', { class: 'sheet' }, h('tbody', {}, ...texts.map(({ name, text }) => h('tr', {}, name ? h('th', { scope: 'row', text: name }) : null, h('td', { text }))))) : null,
    lines.length ? h('table', { class: 'sheet' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', text: 'Time' }), ...lines.map((line) => h('th', { scope: 'col', class: 'number', text: line.name || 'value' })))),
      h('tbody', {}, ...rows)) : null);
  element.scrollTop = top;
}
