// Event records, as they come, and those of the past.

import { ask, isAbort, poll, words } from '../lib/api.js';
import { advance } from '../lib/density.js';
import { fill, h, set, svg } from '../lib/dom.js';
import { both, test } from '../lib/filter.js';
import { clock, moment } from '../lib/format.js';
import { list } from '../lib/list.js';
import { format, range } from '../lib/route.js';
import { BACK, timebar } from '../lib/timebar.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Event} Event */
/** @typedef {import('../types').Events} Events */

/** Records that are asked for at a time, and at most in all. */
const PAGE = 1000;
const MOST = 100000;
const HEIGHT = 26;
/** Fields with a column of their own, always. */
const OWN = ['type', 'severity', 'message'];

/**
 * @param {App} app
 * @returns {import('../types').View}
 */
export function events(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Event[]} */
  let records = [];
  /** @type {Events | null} */
  let found = null;
  /** @type {string[]} */
  let names = [];
  let trouble = '';
  let ended = false;
  let loading = false;
  let turn = 0;

  const columns = () => (params.columns ?? '').split(',').filter(Boolean);
  const bar = timebar(app, BACK);
  const filter = h('input', { type: 'text', class: 'code', 'aria-label': 'Filter', spellcheck: 'false', autocomplete: 'off', placeholder: 'Filter: severity >= warning && status >= 500' });
  const text = h('input', { type: 'search', 'aria-label': 'Text', placeholder: 'Text in any field' });
  const chooser = h('details', { class: 'menu' });
  const error = h('pre', { class: 'problem', role: 'alert', hidden: true });
  const counts = h('p', { class: 'note', role: 'status' });
  const density = h('div', { class: 'density', 'aria-hidden': 'true' });
  const head = h('div', { class: 'row head', role: 'row' });
  const detail = h('aside', { class: 'detail', 'aria-label': 'Record', hidden: true });
  const rows = list({
    role: 'grid', label: 'Records, the newest first', height: HEIGHT,
    row: (at) => row(/** @type {Event} */ (records[at])),
    chosen: (at, open) => { if (open || !detail.hidden) show(records[at]); },
    near: (last) => { if (last > records.length - 200) older(); },
    key: (key) => {
      if (key !== 'Escape' || detail.hidden) return false;
      show(undefined);
      return true;
    },
  });
  const element = h('div', { class: 'events' },
    h('h1', { class: 'unseen', text: 'Events' }),
    h('form', { class: 'bar', onsubmit: (/** @type {SubmitEvent} */ event) => { event.preventDefault(); app.go({ filter: filter.value, text: text.value }); } },
      h('div', { class: 'grow' }, filter), h('div', { class: 'some' }, text), h('button', { type: 'submit', text: 'Apply' })),
    bar.element, error, density, h('div', { class: 'bar' }, counts, h('span', { class: 'gap' }), chooser),
    h('div', { class: 'split' }, h('div', { class: 'rows' }, head, rows.element), detail));

  const row = (/** @type {Event} */ record) => {
    const time = Number(BigInt(record.time) / 1000n) / 1e6;
    if (record.missed !== undefined) {
      return h('div', { class: 'row missed' }, cell('time', clock(time, 6)), cell('source', record.source),
        h('span', { role: 'gridcell', class: 'rest', text: `${record.missed.toLocaleString('en')} ${record.missed === 1 ? 'record was' : 'records were'} lost here` }));
    }
    const fields = new Map(record.fields);
    const severity = String(fields.get('severity') ?? '');
    const chosen = columns();
    const rest = record.fields.filter(([name]) => !OWN.includes(name) && !chosen.includes(name));
    const flag = record.flags.includes('start') ? '▸ ' : record.flags.includes('end') ? '◂ ' : '';
    return h('div', { class: `row${record.failed ? ' failed' : ''}` },
      cell('time', clock(time, 6)), cell('source', record.source), cell(`severity ${severity}`, severity),
      cell('type', flag + String(fields.get('type') ?? '')),
      ...chosen.map((name) => cell('chosen', fields.has(name) ? String(fields.get(name)) : '')),
      h('span', { role: 'gridcell', class: 'rest' }, fields.has('message') ? h('b', { text: `${fields.get('message')} ` }) : null,
        ...rest.flatMap(([name, value]) => [h('i', { text: `${name}=` }), `${value} `])));
  };

  const show = (/** @type {Event | undefined} */ record) => {
    detail.hidden = !record;
    if (!record) return;
    const nanos = BigInt(record.time);
    const seconds = Number(nanos / 1000000000n);
    const add = (/** @type {string} */ name, /** @type {string | number | boolean} */ value) => {
      const wanted = both(params.filter ?? '', test(name, value));
      return h('button', { type: 'button', class: 'quiet', title: `Only with ${name} ${value}`, 'aria-label': `Only records with this ${name}`, onclick: () => app.go({ filter: wanted }), text: '+' });
    };
    const one = (/** @type {string} */ name, /** @type {string | number | boolean} */ value, addable = true) => h('div', {}, h('dt', { text: name }), h('dd', {}, String(value), addable ? add(name, value) : null));
    fill(detail,
      h('div', { class: 'heading' }, h('h2', { text: record.missed === undefined ? 'Record' : 'Lost records' }),
        h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: () => { show(undefined); rows.element.focus(); }, text: '×' })),
      h('dl', {},
        one('time', `${moment(seconds)}.${String(nanos % 1000000000n).padStart(9, '0')}`, false),
        one('source', record.source, false),
        record.missed !== undefined ? one('lost', record.missed, false) : null,
        record.flags.length ? one('flags', record.flags.join(' '), false) : null,
        record.trace ? h('div', {}, h('dt', { text: 'trace' }), h('dd', {}, h('a', { href: format('traces', { source: params.source, id: record.trace, at: String(seconds) }), text: record.trace }))) : null,
        record.span ? one('span_id', record.span) : null,
        ...record.fields.map(([name, value]) => one(name, value))));
  };

  const draw = () => {
    bar.draw(params, found);
    set(error, { hidden: !trouble });
    error.textContent = trouble;
    const chosen = columns();
    element.style.setProperty('--columns', chosen.length ? `repeat(${chosen.length}, minmax(5rem, 10rem))` : '');
    rows.element.classList.toggle('with-columns', chosen.length > 0);
    head.classList.toggle('with-columns', chosen.length > 0);
    fill(head, ...['Time', 'Source', 'Severity', 'Type'].map((name) => h('span', { role: 'columnheader', text: name })),
      ...chosen.map((name) => h('span', { role: 'columnheader', text: name })), h('span', { role: 'columnheader', text: 'Message and fields' }));
    if (!found) return;
    const said = [
      `${found.total.toLocaleString('en')} ${found.total === 1 ? 'record' : 'records'}`,
      found.missed ? `${found.missed.toLocaleString('en')} lost` : '',
      found.gone ? `${found.gone.toLocaleString('en')} came too fast to be shown` : '',
      records.length >= MOST ? `the newest ${MOST.toLocaleString('en')} are listed` : '',
      ...found.problems,
    ].filter(Boolean).join(' · ');
    if (counts.textContent !== said) counts.textContent = said;
    drawDensity();
    drawChooser();
  };

  const drawDensity = () => {
    if (!found?.counts.length) return fill(density);
    const { counts: all, start, finish } = found;
    const most = Math.max(1, ...all.map(([count]) => count));
    const bars = all.flatMap(([count, failed], at) => [
      count ? svg('rect', { class: 'count', x: at, width: 0.86, y: 40 - (count / most) * 38, height: (count / most) * 38 }) : null,
      failed ? svg('rect', { class: 'bad', x: at, width: 0.86, y: 40 - (failed / most) * 38, height: (failed / most) * 38 }) : null,
    ]);
    const image = svg('svg', { viewBox: `0 0 ${all.length} 40`, preserveAspectRatio: 'none' }, ...bars);
    let from = -1;
    const at = (/** @type {PointerEvent} */ event) => {
      const { left, width } = image.getBoundingClientRect();
      return start + ((event.clientX - left) / width) * (finish - start);
    };
    image.addEventListener('pointerdown', (event) => { from = at(event); image.setPointerCapture(event.pointerId); });
    image.addEventListener('pointerup', (event) => {
      const to = at(event);
      if (from >= 0 && Math.abs(to - from) > (finish - start) / 200) bar.zoom(Math.min(from, to), Math.max(from, to));
      from = -1;
    });
    fill(density, image);
  };

  const drawChooser = () => {
    const known = [...new Set([...columns(), ...names])].filter((name) => !OWN.includes(name));
    const now = known.join('\n') + params.columns;
    if (chooser.dataset.now === now) return;
    chooser.dataset.now = now;
    const toggle = (/** @type {string} */ name) => {
      const chosen = columns();
      app.go({ columns: (chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]).join(',') }, true);
    };
    fill(chooser, h('summary', { text: 'Columns' }), h('div', { class: 'options' }, ...known.map((name) => h('label', {},
      h('input', { type: 'checkbox', checked: columns().includes(name), onchange: () => toggle(name) }), name))));
  };

  const question = () => {
    const { from, to } = range(params, BACK);
    return { source: params.source, start: from, finish: to, filter: params.filter, text: params.text };
  };

  const older = async () => {
    const last = records.at(-1);
    if (!last || ended || loading || records.length >= MOST) return;
    loading = true;
    const mine = turn;
    let skip = 0;
    while (records.at(-1 - skip)?.time === last.time) skip += 1;
    try {
      /** @type {Events} */
      const answer = await ask('/page/events', { ...question(), before: last.time, skip, limit: PAGE });
      if (mine !== turn) return;
      ended = answer.records.length < PAGE;
      if (!answer.records.length) return;
      records.push(...answer.records);
      rows.update(records.length);
    } catch (failure) {
      if (mine === turn && !isAbort(failure)) {
        trouble = words(failure);
        draw();
      }
    } finally {
      if (mine === turn) loading = false;
    }
  };

  /** @type {number | undefined} */
  let next;
  let begun = '';
  const poller = poll(async (signal) => {
    if (!params.source) return 1;
    const { live } = range(params, BACK);
    const asked = JSON.stringify(question());
    try {
      if (live && next !== undefined && begun === asked) {
        /** @type {Events} */
        const answer = await ask('/page/events', { ...question(), since: next, limit: PAGE }, signal);
        next = answer.next;
        if (found && answer.records.length) {
          found.total += answer.total - answer.records.filter((record) => record.missed !== undefined).length;
          found.missed += answer.missed;
          found.gone = (found.gone ?? 0) + (answer.gone ?? 0) + Math.max(0, answer.total - answer.records.length);
          const known = new Set(names);
          for (const record of answer.records) for (const [name] of record.fields) if (!known.has(name)) { known.add(name); names.push(name); }
          records = answer.records.concat(records).slice(0, MOST);
          rows.update(records.length, answer.records.length);
        }
        if (found) {
          const length = found.finish - found.start;
          const now = Date.now() / 1000;
          advance(found, now - length, now, answer.records);
        }
      } else {
        begun = asked;
        turn += 1;
        loading = false;
        /** @type {Events} */
        const answer = await ask('/page/events', { ...question(), limit: PAGE }, signal);
        [found, records, names, next] = [answer, answer.records, answer.fields, answer.next];
        ended = records.length < PAGE;
        rows.reset();
        rows.update(records.length);
        show(undefined);
      }
      trouble = '';
    } catch (failure) {
      if (isAbort(failure)) throw failure;
      trouble = words(failure);
      begun = '';
      found = null;
      records = [];
      rows.update(0);
      draw();
      return trouble.startsWith('filter:') ? null : 3;
    }
    draw();
    return live && next !== undefined ? 1 : null;
  });

  return {
    element,
    show(now) {
      const before = params;
      params = now;
      if (filter.value !== (now.filter ?? '')) filter.value = now.filter ?? '';
      if (text.value !== (now.text ?? '')) text.value = now.text ?? '';
      if (now.columns !== before.columns) rows.update(records.length);
      draw();
      if (['source', 'from', 'to', 'filter', 'text'].some((name) => now[name] !== before[name])) poller.now();
    },
    key(key) {
      switch (key) {
        case '/': text.focus(); break;
        case 'f': filter.focus(); break;
        default: return bar.key(key);
      }
      return true;
    },
    keys: [['f', 'filter'], ['/', 'text'], ['↑ ↓ Enter', 'select a record, show all of it'], ...bar.keys],
    close() {
      turn += 1;
      poller.close();
      rows.close();
    },
  };
}

/**
 * @param {string} kind
 * @param {string} text
 */
function cell(kind, text) {
  return h('span', { role: 'gridcell', class: kind, text, title: text });
}
