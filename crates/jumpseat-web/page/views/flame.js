// Where the time of spans goes: a flame graph.

import { fill, h, set } from '../lib/dom.js';
import { follow } from '../lib/follow.js';
import { duration, number } from '../lib/format.js';
import { blocks } from '../lib/frames.js';
import { hue } from '../lib/names.js';
import { BACK, timebar } from '../lib/timebar.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Flames} Flames */
/** @typedef {import('../types').Frame} Frame */
/** @typedef {import('../lib/frames.js').Block} Block */

const HEIGHT = 25;
/**
 * @param {App} app
 * @returns {import('../types').View}
 */
export function flame(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Flames | null} */
  let found = null;
  let trouble = '';
  const tabled = h('button', { type: 'button', 'aria-pressed': 'false', text: 'Table', onclick: () => app.go({ table: params.table ? null : '1' }, true) });
  const bar = timebar(app, BACK, tabled);
  const error = h('p', { class: 'notice', role: 'alert', hidden: true });
  const note = h('p', { class: 'note', role: 'status' });
  const readout = h('p', { class: 'readout', 'aria-live': 'polite', text: ' ' });
  const graph = h('div', { class: 'flames', role: 'tree', 'aria-label': 'Time of spans by path: arrow keys go up, down and aside, Enter makes a frame the whole' });
  const table = h('div', { class: 'scroll' });
  const element = h('div', {}, h('h1', { class: 'unseen', text: 'Flame graph' }), bar.element, error, note, readout, graph, table);

  const path = () => (params.frame ?? '').split('\n').filter(Boolean);
  const zoom = (/** @type {string[]} */ to) => app.go({ frame: to.join('\n') });
  const tell = (/** @type {Frame} */ frame) => `${frame.name}: ${duration(frame.total)}, ${share(frame)}; own ${duration(frame.own)}; ${number(frame.count, { style: 'decimal', whole: true })} spans${frame.errors ? `, ${frame.errors} failed` : ''}`;
  const share = (/** @type {Frame} */ frame) => `${((frame.total / Math.max(found?.root.total ?? 0, Number.MIN_VALUE)) * 100).toFixed(1)}% of all`;

  const draw = () => {
    bar.draw(params, found);
    set(error, { hidden: !trouble });
    error.textContent = trouble;
    set(tabled, { 'aria-pressed': String(Boolean(params.table)) });
    graph.hidden = Boolean(params.table);
    table.hidden = !params.table;
    if (!found) return;
    note.textContent = [`${found.traces.toLocaleString('en')} ${found.traces === 1 ? 'trace' : 'traces'}, ${duration(found.root.total)} of spans`, ...found.problems].join(' · ');
    const all = blocks(found.root, path());
    const focused = graph.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.path : null;
    const deepest = Math.max(0, ...all.map((block) => block.depth));
    graph.style.height = `${(deepest + 1) * HEIGHT}px`;
    const buttons = all.map((block) => {
      const button = h('button', {
        type: 'button', class: `frame${block.frame.errors ? ' failed' : ''}`, role: 'treeitem', tabindex: '-1', 'aria-level': block.depth + 1,
        'aria-label': tell(block.frame), 'data-path': block.path.join('\n'), text: block.frame.name,
        onclick: () => zoom(block.path), onpointerenter: () => { readout.textContent = tell(block.frame); }, onfocus: () => { readout.textContent = tell(block.frame); },
      });
      button.style.left = `${block.from * 100}%`;
      button.style.width = `calc(${(block.to - block.from) * 100}% - 1px)`;
      button.style.top = `${block.depth * HEIGHT}px`;
      if (block.path.length) button.style.setProperty('--hue', hue(block.frame.name.split('/')[0] ?? ''));
      return button;
    });
    if (!buttons.length) fill(graph, h('p', { class: 'note', text: 'No spans have ended in this window.' }));
    else fill(graph, ...buttons);
    const at = buttons.find((button) => button.dataset.path === focused) ?? buttons[0];
    if (at) at.tabIndex = 0;
    if (focused !== null && focused !== undefined) at?.focus();
    if (params.table) drawTable(all);
  };

  const drawTable = (/** @type {Block[]} */ all) => {
    const row = (/** @type {Block} */ { frame, depth, path }) => {
      const indent = h('span', { class: 'indent' });
      indent.style.width = `${depth * 16}px`;
      return h('tr', {}, h('th', { scope: 'row' }, indent, path.length ? frame.name : 'all'),
        h('td', { class: 'number', text: duration(frame.total) }), h('td', { class: 'number', text: duration(frame.own) }),
        h('td', { class: 'number', text: frame.count || '' }), h('td', { class: `number${frame.errors ? ' bad' : ' dim'}`, text: frame.errors }));
    };
    fill(table, h('table', { class: 'sheet' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', text: 'Path' }), ...['Total', 'Own', 'Spans', 'Errors'].map((text) => h('th', { scope: 'col', class: 'number', text })))),
      h('tbody', {}, ...all.map(row))));
  };

  graph.addEventListener('keydown', (event) => {
    const all = /** @type {HTMLElement[]} */ ([...graph.querySelectorAll('button')]);
    const now = /** @type {HTMLElement} */ (document.activeElement);
    const parts = (now.dataset.path ?? '').split('\n').filter(Boolean);
    const parent = parts.slice(0, -1).join('\n');
    const level = (/** @type {HTMLElement} */ one) => Number(one.getAttribute('aria-level'));
    const aside = all.filter((one) => level(one) === level(now));
    /** @type {HTMLElement | undefined} */
    let next;
    switch (event.key) {
      case 'ArrowUp': next = parts.length ? all.find((one) => one.dataset.path === parent) : undefined; break;
      case 'ArrowDown': next = all.find((one) => level(one) === level(now) + 1 && (parts.length === 0 || one.dataset.path?.startsWith(`${now.dataset.path}\n`))); break;
      case 'ArrowRight': next = aside[aside.indexOf(now) + 1]; break;
      case 'ArrowLeft': next = aside[aside.indexOf(now) - 1]; break;
      case 'Escape': zoom(path().slice(0, -1)); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (!next) return;
    now.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  const poller = follow({
    params: () => params,
    back: BACK,
    every: 5,
    path: '/page/flame',
    wanted: ({ service }) => ({ service }),
    show(/** @type {Flames | null} */ answer, text) {
      found = answer ?? found;
      trouble = text;
      draw();
    },
  });

  return {
    element,
    show(now) {
      const before = params;
      params = now;
      draw();
      if (['source', 'from', 'to', 'service'].some((name) => now[name] !== before[name])) poller.now();
    },
    refresh: draw,
    key(key) {
      if (key !== 't') return bar.key(key);
      tabled.click();
      return true;
    },
    keys: [['↑ ↓ ← →', 'from frame to frame'], ['Enter Esc', 'make a frame the whole, and back'], ['t', 'table'], ...bar.keys],
    close: poller.close,
  };
}
