// How long spans take: names, a heat map over time with quantiles, and which services call which.

import { fill, h, set, svg } from '../lib/dom.js';
import { follow } from '../lib/follow.js';
import { clock, duration, number } from '../lib/format.js';
import { layers } from '../lib/layers.js';
import { hue } from '../lib/names.js';
import { format } from '../lib/route.js';
import { BACK, timebar } from '../lib/timebar.js';
import { chip, choices } from './traces.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Spans} Spans */
/** @typedef {import('../types').Stats} Stats */
/** @typedef {import('../types').Cell} Cell */

const COUNT = /** @type {const} */ ({ style: 'decimal', whole: true });
const RATE = /** @type {const} */ ({ style: 'decimal', whole: false });
/** Columns of the heat map, and the size of a cell in the drawing. */
const COLUMNS = 80;
const [WIDE, HIGH] = [10, 12];

/**
 * @param {App} app
 * @returns {import('../types').View}
 */
export function spans(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Spans | null} */
  let found = null;
  let trouble = '';
  const bar = timebar(app, BACK);
  const service = h('select', { 'aria-label': 'Service', onchange: () => app.go({ service: service.value, name: null }) });
  const name = h('select', { 'aria-label': 'Name', onchange: () => app.go({ name: name.value }) });
  const error = h('p', { class: 'notice', role: 'alert', hidden: true });
  const note = h('p', { class: 'note', role: 'status' });
  const names = h('div', { class: 'scroll some-rows' });
  const heat = h('div', { class: 'heat' });
  const map = h('div', { class: 'map' });
  const calls = h('div', {});
  const readout = h('p', { class: 'note readout', 'aria-live': 'polite' });
  const element = h('div', { class: 'spans' },
    h('h1', { class: 'unseen', text: 'Spans' }),
    h('div', { class: 'bar' }, service, name, h('span', { class: 'gap' })), bar.element, error, note,
    h('section', { class: 'panel' }, h('div', { class: 'heading' }, h('h2', { text: 'Durations over time' }), h('span', { class: 'legend-line' },
      ...['p50', 'p95', 'p99'].map((quantile) => h('span', {}, h('i', { class: `stroke ${quantile}` }), quantile)), h('span', {}, h('i', { class: 'swatch failed' }), 'with errors'))), heat, readout),
    h('section', {}, h('h2', { text: 'Names' }), names),
    h('section', { class: 'panel' }, h('div', { class: 'heading' }, h('h2', { text: 'Services' })), map, h('details', {}, h('summary', { text: 'Calls as a table' }), calls)));
  /** The cell that keys are at. */
  let at = -1;

  const draw = () => {
    bar.draw(params, found);
    set(error, { hidden: !trouble });
    error.textContent = trouble;
    const known = found?.names ?? [];
    choices(service, 'all services', [...new Set([...known.map((one) => one.service), params.service ?? ''])], params.service);
    choices(name, 'all names', [...new Set([...known.filter((one) => !params.service || one.service === params.service).map((one) => one.name), params.name ?? ''])], params.name);
    if (!found) return;
    note.textContent = [`${found.total.toLocaleString('en')} ${found.total === 1 ? 'span' : 'spans'} have ended`, ...found.problems].join(' · ');
    drawHeat(found);
    drawNames(found);
    drawMap(found);
    drawCalls(found);
  };

  const drawHeat = (/** @type {Spans} */ { heat: found, start, finish }) => {
    if (!found.cells.length) return fill(heat, h('p', { class: 'note', text: 'No spans have ended in this window.' }));
    const focused = heat.contains(document.activeElement);
    const [width, height] = [COLUMNS * WIDE, found.rows.length * HIGH];
    const most = Math.max(...found.cells.map((cell) => cell.count));
    const tell = (/** @type {Cell} */ cell) => {
      const low = cell.row ? found.rows[cell.row - 1] ?? 0 : 0;
      return `${clock(start + cell.column * found.step)}: ${cell.count} ${cell.count === 1 ? 'span' : 'spans'} of ${duration(low)} to ${duration(found.rows[cell.row] ?? 0)}${cell.errors ? `, ${cell.errors} failed` : ''}`;
    };
    const open = (/** @type {Cell} */ cell) => { location.hash = format('traces', { source: params.source, id: cell.trace, at: String(Math.round(cell.at)) }); };
    const cells = found.cells.map((cell) => svg('rect', {
      class: `cell${cell.errors ? ' failed' : ''}`, x: cell.column * WIDE + 0.5, y: height - (cell.row + 1) * HIGH + 0.5, width: WIDE - 1, height: HIGH - 1,
      'fill-opacity': 0.18 + 0.82 * (Math.log(cell.count + 1) / Math.log(most + 1)),
      onclick: () => open(cell), onpointerenter: () => { readout.textContent = `${tell(cell)}; click for one of them`; },
    }));
    const place = (/** @type {number} */ seconds) => {
      const first = (found.rows[0] ?? 1e-6) / Math.SQRT2;
      const row = Math.log2(Math.max(seconds, first) / first) * 2;
      return height - Math.min(found.rows.length, row) * HIGH;
    };
    const line = (/** @type {'p50' | 'p95' | 'p99'} */ which) => {
      let path = '';
      found[which].forEach((value, column) => { if (value !== null) path += `${path ? 'L' : 'M'}${(column + 0.5) * WIDE},${place(value).toFixed(1)}`; });
      return svg('path', { class: `quantile ${which}`, d: path });
    };
    const cursor = svg('rect', { class: 'cursor', width: WIDE, height: HIGH, visibility: 'hidden' });
    const image = svg('svg', {
      viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', tabindex: '0', role: 'application',
      'aria-label': 'Heat map of durations over time: arrow keys go from cell to cell, Enter opens a trace',
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const now = found.cells[at];
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (event.key === 'Enter' && now) open(now);
        else if (by || up) {
          let next = -1;
          if (!now) next = found.cells.length - 1;
          else {
            const score = (/** @type {Cell} */ cell) => (by ? Math.abs(cell.column - now.column) * 100 + Math.abs(cell.row - now.row) : Math.abs(cell.row - now.row));
            found.cells.forEach((cell, other) => {
              const ahead = by ? (cell.column - now.column) * by > 0 : cell.column === now.column && (cell.row - now.row) * (up ?? 0) > 0;
              const best = found.cells[next];
              if (ahead && (!best || score(cell) < score(best))) next = other;
            });
          }
          const cell = found.cells[next];
          if (!cell) return;
          at = next;
          set(cursor, { x: cell.column * WIDE, y: height - (cell.row + 1) * HIGH, visibility: 'visible' });
          readout.textContent = tell(cell);
        } else return;
        event.preventDefault();
        event.stopPropagation();
      },
    }, ...cells, line('p99'), line('p95'), line('p50'), cursor);
    image.style.height = `${Math.max(110, Math.min(360, found.rows.length * 14))}px`;
    at = -1;
    const every = Math.max(1, Math.ceil(found.rows.length / 7));
    const scale = h('div', { class: 'scale', 'aria-hidden': 'true' }, ...found.rows.flatMap((limit, row) => {
      if ((row + 1) % every) return [];
      const mark = h('span', { text: duration(limit) });
      mark.style.bottom = `${((row + 1) / found.rows.length) * 100}%`;
      return [mark];
    }));
    const times = h('div', { class: 'times', 'aria-hidden': 'true' }, ...[0, 0.25, 0.5, 0.75, 1].map((share) => h('span', { text: clock(start + (finish - start) * share) })));
    fill(heat, scale, image, times);
    if (focused) image.focus();
  };

  const drawNames = (/** @type {Spans} */ { names: all }) => {
    if (names.matches(':focus-within')) return;
    fill(names, h('table', { class: 'sheet' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', text: 'Span' }), ...['Count', 'Rate', 'Errors', 'p50', 'p95', 'p99', 'Max'].map((text) => h('th', { scope: 'col', class: 'number', text })), h('th', { scope: 'col', text: '' }))),
      h('tbody', {}, ...all.map((one) => h('tr', { class: one.service === params.service && one.name === params.name ? 'chosen' : '' },
        h('th', { scope: 'row' }, chip(one.service), h('a', { href: format('spans', { ...params, service: one.service, name: one.name }), text: one.name })),
        ...numbers(one),
        h('td', {}, h('a', { href: format('traces', { source: params.source, from: params.from, to: params.to, service: one.service, name: one.name, sort: 'slowest' }), text: 'slowest' })))))));
  };

  const drawMap = (/** @type {Spans} */ { services, calls: all }) => {
    const placed = layers(services.map((one) => one.service), all.map(({ from, to }) => [from, to]));
    const [w, tall, gap, rise] = [190, 58, 130, 26];
    const deepest = Math.max(0, ...placed.map((one) => one.layer));
    const widest = Math.max(1, ...placed.map((one) => one.of));
    const height = widest * (tall + rise) - rise + 20;
    const spot = new Map(placed.map((one) => [one.name, {
      x: 10 + one.layer * (w + gap),
      y: 10 + (height - 20 - (one.of * (tall + rise) - rise)) / 2 + one.place * (tall + rise),
    }]));
    const edges = all.flatMap((call) => {
      const [from, to] = [spot.get(call.from), spot.get(call.to)];
      if (!from || !to) return [];
      const [x1, y1, x2, y2] = [from.x + w, from.y + tall / 2, to.x, to.y + tall / 2];
      const bend = Math.max(40, Math.abs(x2 - x1) / 2);
      const text = `${number(call.rate, RATE)}/s${call.errors ? `, ${percent(call)} errors` : ''}`;
      return [
        svg('path', { class: `call${call.errors ? ' failed' : ''}`, d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, 'marker-end': 'url(#arrow)' }, svg('title', { text: `${call.from} calls ${call.to}: ${text}, p95 ${duration(call.p95)}` })),
        svg('text', { class: call.errors ? 'bad' : 'dim', x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 16, 'text-anchor': 'middle', text: `${number(call.rate, RATE)}/s` }),
        svg('text', { class: call.errors ? 'bad' : 'dim', x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 3, 'text-anchor': 'middle', text: call.errors ? `${percent(call)} errors` : `p95 ${duration(call.p95)}` }),
      ];
    });
    const nodes = services.map((one) => {
      const place = spot.get(one.service) ?? { x: 0, y: 0 };
      const mark = svg('rect', { class: 'mark', x: place.x, y: place.y, width: 5, height: tall, rx: 2 });
      mark.style.fill = hue(one.service);
      return svg('a', { href: format('spans', { ...params, service: one.service, name: null }), 'aria-label': `${one.service}: ${number(one.rate, RATE)} a second, ${percent(one)} errors, p95 ${duration(one.p95)}` },
        svg('rect', { class: `node${one.errors ? ' failed' : ''}${one.service === params.service ? ' chosen' : ''}`, x: place.x, y: place.y, width: w, height: tall, rx: 7 }), mark,
        svg('text', { class: 'name', x: place.x + 15, y: place.y + 23, text: one.service.length > 22 ? `${one.service.slice(0, 21)}…` : one.service }),
        svg('text', { class: 'dim', x: place.x + 15, y: place.y + 43, text: `${number(one.rate, RATE)}/s · p95 ${duration(one.p95)}` }),
        one.errors ? svg('text', { class: 'bad', x: place.x + w - 8, y: place.y + 23, 'text-anchor': 'end', text: percent(one) }) : null);
    });
    const width = 20 + (deepest + 1) * (w + gap) - gap;
    const focused = map.contains(document.activeElement) ? document.activeElement?.getAttribute('href') : null;
    const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': 'Services and their calls' },
      svg('defs', {}, svg('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, svg('path', { class: 'tip', d: 'M0,0 L8,4 L0,8 z' }))),
      ...edges, ...nodes);
    fill(map, services.length ? image : h('p', { class: 'note', text: 'No services yet.' }));
    if (focused) for (const link of map.querySelectorAll('a')) if (link.getAttribute('href') === focused) link.focus();
  };

  const drawCalls = (/** @type {Spans} */ { calls: all }) => {
    fill(calls, h('table', { class: 'sheet' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', text: 'From' }), h('th', { scope: 'col', text: 'To' }), ...['Count', 'Rate', 'Errors', 'p50', 'p95', 'p99', 'Max'].map((text) => h('th', { scope: 'col', class: 'number', text })))),
      h('tbody', {}, ...all.map((call) => h('tr', {}, h('td', { text: call.from }), h('td', { text: call.to }), ...numbers(call))))));
  };

  const poller = follow({
    params: () => params,
    back: BACK,
    every: 5,
    path: '/page/spans',
    wanted: ({ service, name }) => ({ service, name }),
    show(/** @type {Spans | null} */ answer, text) {
      found = answer ?? found;
      trouble = text;
      // A cell that somebody looks at is not taken away.
      if (text || !heat.matches(':focus-within')) draw();
    },
  });

  return {
    element,
    show(now) {
      const before = params;
      params = now;
      draw();
      if (['source', 'from', 'to', 'service', 'name'].some((name) => now[name] !== before[name])) poller.now();
    },
    refresh: draw,
    key: (key) => bar.key(key),
    keys: [['← → ↑ ↓ Enter', 'in the heat map: from cell to cell, and to a trace'], ...bar.keys],
    close: poller.close,
  };
}

/** @param {Pick<Stats, 'count' | 'errors'>} stats */
function percent({ count, errors }) {
  const share = (errors / Math.max(1, count)) * 100;
  return `${share && share < 0.1 ? '<0.1' : share.toFixed(share < 10 ? 1 : 0)}%`;
}

/** @param {Stats} stats */
function numbers(stats) {
  return [
    h('td', { class: 'number', text: number(stats.count, COUNT) }), h('td', { class: 'number', text: `${number(stats.rate, RATE)}/s` }),
    h('td', { class: `number${stats.errors ? ' bad' : ' dim'}`, text: stats.errors ? percent(stats) : '0' }),
    ...[stats.p50, stats.p95, stats.p99, stats.max].map((seconds) => h('td', { class: 'number', text: duration(seconds) })),
  ];
}
