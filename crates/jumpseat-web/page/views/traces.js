// Traces: a list of them, and one as a waterfall.

import { ask, isAbort, poll, words } from '../lib/api.js';
import { fill, h, set } from '../lib/dom.js';
import { follow } from '../lib/follow.js';
import { clock, duration, moment } from '../lib/format.js';
import { list } from '../lib/list.js';
import { hue } from '../lib/names.js';
import { format } from '../lib/route.js';
import { BACK, timebar } from '../lib/timebar.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Traces} Traces */
/** @typedef {import('../types').Trace} Trace */
/** @typedef {import('../types').Span} Span */
/** @typedef {import('../types').View} View */

const HEIGHT = 26;
/** Parameters of the list, which one trace keeps for the way back. */
const SEARCH = ['service', 'name', 'text', 'min', 'failed', 'sort'];

/**
 * @param {App} app
 * @returns {View}
 */
export function traces(app) {
  const element = h('div', {});
  /** @type {View | null} */
  let inner = null;
  let which = '';
  return {
    element,
    show(params) {
      const wanted = params.id ?? '';
      if (!inner || wanted !== which) {
        inner?.close();
        which = wanted;
        inner = wanted ? waterfall(app) : search(app);
        fill(element, inner.element);
        this.keys = inner.keys ?? [];
      }
      inner.show(params);
    },
    refresh: () => inner?.refresh?.(),
    key: (key) => inner?.key?.(key) ?? false,
    keys: [],
    close: () => inner?.close(),
  };
}

/**
 * The list.
 * @param {App} app
 * @returns {View}
 */
function search(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Traces | null} */
  let found = null;
  let trouble = '';
  const bar = timebar(app, BACK);
  const service = h('select', { 'aria-label': 'Service', onchange: () => app.go({ service: service.value, name: null }) });
  const name = h('select', { 'aria-label': 'Name', onchange: () => app.go({ name: name.value }) });
  const text = h('input', { type: 'search', 'aria-label': 'Text', placeholder: 'Text in any field of a span' });
  const min = h('input', { type: 'text', 'aria-label': 'Least duration', placeholder: 'least: 200ms', class: 'short' });
  const failed = h('input', { type: 'checkbox', id: 'failed', onchange: () => app.go({ failed: failed.checked ? '1' : null }) });
  const sort = h('select', { 'aria-label': 'Order', onchange: () => app.go({ sort: sort.value }) },
    h('option', { value: '', text: 'newest first' }), h('option', { value: 'slowest', text: 'slowest first' }));
  const error = h('p', { class: 'notice', role: 'alert', hidden: true });
  const note = h('p', { class: 'note', role: 'status' });
  const body = h('tbody', {});
  const table = h('div', { class: 'scroll' }, h('table', { class: 'sheet traces' },
    h('thead', {}, h('tr', {}, ...['When', 'Duration', '', 'Trace', 'Spans', 'Errors', 'Services'].map((title) => h('th', { scope: 'col', text: title, class: ['Duration', 'Spans', 'Errors'].includes(title) ? 'number' : '' })))),
    body));
  const element = h('div', { class: 'searching' },
    h('h1', { class: 'unseen', text: 'Traces' }),
    h('form', { class: 'bar', onsubmit: (/** @type {SubmitEvent} */ event) => { event.preventDefault(); app.go({ text: text.value, min: min.value }); } },
      service, name, h('div', { class: 'grow' }, text), min, h('label', { class: 'check', for: 'failed' }, failed, 'errors only'), sort, h('button', { type: 'submit', text: 'Apply' })),
    bar.element, error, note, table);

  const draw = () => {
    bar.draw(params, found);
    set(error, { hidden: !trouble });
    error.textContent = trouble;
    failed.checked = Boolean(params.failed);
    sort.value = params.sort ?? '';
    const known = found?.services ?? {};
    choices(service, 'all services', [...new Set([...Object.keys(known), params.service ?? ''])], params.service);
    choices(name, 'all names', [...new Set([...(params.service ? known[params.service] ?? [] : Object.values(known).flat()), params.name ?? ''])], params.name);
    if (!found) return;
    note.textContent = [
      `${found.total.toLocaleString('en')} ${found.total === 1 ? 'trace' : 'traces'}`,
      found.total > found.traces.length ? `${found.traces.length} are listed` : '', ...found.problems,
    ].filter(Boolean).join(' · ');
    const longest = Math.max(1e-9, ...found.traces.map((trace) => trace.duration));
    if (body.matches(':focus-within')) return;
    fill(body, ...found.traces.map((trace) => {
      const part = h('i', { class: `part${trace.errors ? ' failed' : ''}` });
      part.style.width = `${Math.max(0.5, (trace.duration / longest) * 100)}%`;
      return h('tr', {},
        h('td', { class: 'time', text: clock(trace.start, 3), title: moment(trace.start) }),
        h('td', { class: 'number', text: trace.complete || trace.duration ? duration(trace.duration) : '–' }),
        h('td', { class: 'share', 'aria-hidden': 'true' }, part),
        h('td', {}, h('a', { href: format('traces', { ...params, id: trace.id, at: String(Math.round(trace.start)) }) }, h('b', { text: trace.service }), ` ${trace.name}`),
          trace.complete ? '' : h('span', { class: 'dim', text: ' not ended' })),
        h('td', { class: 'number', text: trace.spans }),
        h('td', { class: `number${trace.errors ? ' bad' : ' dim'}`, text: trace.errors }),
        h('td', {}, ...Object.entries(trace.services).map(([service, count]) => chip(service, count))));
    }));
  };

  const poller = follow({
    params: () => params,
    back: BACK,
    every: 3,
    path: '/page/traces',
    wanted: (now) => Object.fromEntries(SEARCH.map((name) => [name, now[name]])),
    show(/** @type {Traces | null} */ answer, text) {
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
      if (text.value !== (now.text ?? '')) text.value = now.text ?? '';
      if (min.value !== (now.min ?? '')) min.value = now.min ?? '';
      draw();
      if (['source', 'from', 'to', ...SEARCH].some((name) => now[name] !== before[name])) poller.now();
    },
    refresh: draw,
    key(key) {
      if (key !== '/') return bar.key(key);
      text.focus();
      return true;
    },
    keys: [['/', 'text'], ...bar.keys],
    close: poller.close,
  };
}

/**
 * What can be chosen; the same stays as it is, as somebody may be choosing.
 * @param {HTMLSelectElement} select
 * @param {string} all
 * @param {string[]} names
 * @param {string | undefined} chosen
 */
export function choices(select, all, names, chosen) {
  const wanted = names.filter(Boolean).sort();
  const now = JSON.stringify(wanted);
  if (select.dataset.now !== now) {
    select.dataset.now = now;
    fill(select, h('option', { value: '', text: all }), ...wanted.map((name) => h('option', { value: name, text: name })));
  }
  select.value = chosen ?? '';
}

/**
 * A service in its colour.
 * @param {string} service
 * @param {number} [count]
 */
export function chip(service, count) {
  const swatch = h('i', { class: 'swatch' });
  swatch.style.background = hue(service);
  return h('span', { class: 'chip' }, swatch, service, count && count > 1 ? h('span', { class: 'dim', text: ` ${count}` }) : null);
}

/**
 * One trace.
 * @param {App} app
 * @returns {View}
 */
function waterfall(app) {
  /** @type {Record<string, string>} */
  let params = {};
  /** @type {Trace | null} */
  let trace = null;
  /** @type {Set<number>} */
  const closed = new Set();
  /** @type {number[]} */
  let visible = [];
  const title = h('div', { class: 'title' });
  const error = h('p', { class: 'notice', role: 'alert', hidden: true });
  const critical = h('button', { type: 'button', 'aria-pressed': 'true', title: 'What the trace has waited for (c)', text: 'Critical path', onclick: () => app.go({ critical: params.critical ? null : 'no' }, true) });
  const faults = h('button', { type: 'button', title: 'The next span that failed (e)', text: 'Next error', onclick: () => nextError() });
  const ruler = h('div', { class: 'ruler', 'aria-hidden': 'true' });
  const detail = h('aside', { class: 'detail', 'aria-label': 'Span', hidden: true });
  const rows = list({
    role: 'treegrid', label: 'Spans', height: HEIGHT, row: (at) => row(visible[at] ?? 0),
    chosen: (at) => show(visible[at]),
    key: (key, at) => {
      const index = visible[at];
      const span = index === undefined ? undefined : trace?.spans[index];
      if (index === undefined || !span) return false;
      if (key === 'ArrowRight') { if (closed.delete(index)) fold(); else if (span.children) rows.select(at + 1); return true; }
      if (key === 'ArrowLeft') {
        if (span.children && !closed.has(index)) { closed.add(index); fold(); return true; }
        for (let above = at - 1; above >= 0; above -= 1) {
          if ((trace?.spans[visible[above] ?? 0]?.depth ?? 0) < span.depth) { rows.select(above); break; }
        }
        return true;
      }
      return false;
    },
  });
  const back = h('a', { class: 'back' });
  const element = h('div', { class: 'waterfall' },
    h('div', { class: 'bar' }, back, h('span', { class: 'gap' }), faults, critical), title, error,
    h('div', { class: 'split' }, h('div', { class: 'rows' }, h('div', { class: 'span head' }, h('span', { text: 'Span' }), ruler), rows.element), detail));

  const nextError = () => {
    const spans = trace?.spans ?? [];
    const begin = rows.selected();
    for (let step = 1; step <= visible.length; step += 1) {
      const at = (Math.max(begin, begin < 0 ? -1 : begin) + step + visible.length) % visible.length;
      if (spans[visible[at] ?? 0]?.failed) { rows.select(at); rows.element.focus(); return; }
    }
  };

  const fold = () => {
    const spans = trace?.spans ?? [];
    visible = [];
    let hidden = Infinity;
    spans.forEach((span, at) => {
      if (span.depth > hidden) return;
      hidden = closed.has(at) ? span.depth : Infinity;
      visible.push(at);
    });
    rows.update(visible.length);
  };

  const row = (/** @type {number} */ at) => {
    const span = /** @type {Span} */ (trace?.spans[at]);
    const whole = Math.max(trace?.duration ?? 0, 1e-9);
    const share = (/** @type {number} */ seconds) => `${Math.max(0, Math.min(100, (seconds / whole) * 100))}%`;
    const bar = h('i', { class: `part${span.failed ? ' failed' : ''}${span.ended ? '' : ' open'}` });
    bar.style.left = share(span.start);
    bar.style.width = span.ended ? `max(2px, ${share(span.duration)})` : share(whole - span.start);
    bar.style.background = hue(span.service);
    const path = params.critical ? [] : span.critical.map(([from, to]) => {
      const piece = h('i', { class: 'critical' });
      piece.style.left = share(from);
      piece.style.width = `max(1px, ${share(to - from)})`;
      return piece;
    });
    const points = span.points.map((point) => {
      const dot = h('i', { class: `point${point.failed ? ' failed' : ''}` });
      dot.style.left = share(point.at);
      return dot;
    });
    const text = h('span', { class: 'took', text: span.ended ? duration(span.duration) : 'not ended' });
    // Behind the bar, or in front of it where there is no room behind.
    if (span.start + span.duration > whole * 0.86) text.style.right = `calc(100% - ${share(span.start)} + 6px)`;
    else text.style.left = `calc(${share(span.start + span.duration)} + 6px)`;
    if (span.start < whole * 0.14 && span.start + span.duration > whole * 0.86) {
      text.style.right = `calc(100% - ${share(span.start + span.duration)} + 6px)`;
      text.classList.add('within');
    }
    const label = h('span', { class: 'label', role: 'gridcell' });
    const indent = h('span', { class: 'indent' });
    indent.style.width = `${Math.min(span.depth, 20) * 14}px`;
    label.append(indent,
      h('button', {
        type: 'button', class: 'quiet fold', tabindex: '-1', disabled: !span.children, 'aria-label': closed.has(at) ? 'Unfold' : 'Fold',
        onclick: () => { if (!closed.delete(at)) closed.add(at); fold(); }, text: !span.children ? '' : closed.has(at) ? '▸' : '▾',
      }), chip(span.service), h('span', { class: 'name', text: span.name, title: `${span.service} ${span.name}` }), span.failed ? h('b', { class: 'bad', text: ' error' }) : '');
    return h('div', { class: 'span', 'aria-level': span.depth + 1, 'aria-expanded': span.children ? String(!closed.has(at)) : null },
      label, h('span', { class: 'lane', role: 'gridcell' }, bar, ...path, ...points, text));
  };

  const show = (/** @type {number | undefined} */ at) => {
    const span = at === undefined ? undefined : trace?.spans[at];
    detail.hidden = !span;
    if (!span) return;
    const one = (/** @type {string} */ name, /** @type {any} */ value) => h('div', {}, h('dt', { text: name }), h('dd', { text: String(value) }));
    const waited = span.critical.reduce((sum, [from, to]) => sum + to - from, 0);
    fill(detail,
      h('h2', {}, chip(span.service), ` ${span.name}`),
      span.note ? h('p', { class: 'problem', text: span.note }) : null,
      h('dl', {},
        one('duration', span.ended ? duration(span.duration) : 'not ended'), one('own time', duration(span.own)),
        one('critical', waited ? `${duration(waited)}, ${Math.round((waited / Math.max(1e-9, trace?.duration ?? 0)) * 100)} % of the trace` : 'no'),
        one('begins', `${duration(span.start)} after the trace`), one('host', span.host), span.source === span.service ? null : one('source', span.source),
        span.kind ? one('kind', span.kind) : null, one('span_id', span.id),
        ...span.fields.filter(([name]) => name !== 'type' && name !== 'kind').map(([name, value]) => one(name, value))),
      span.points.length ? h('h3', { text: 'Within' }) : null,
      span.points.length ? h('dl', {}, ...span.points.map((point) => one(`+${duration(point.at - span.start)}`, point.fields.map(([name, value]) => (name === 'type' ? value : `${name}=${value}`)).join(' ')))) : null);
  };

  const draw = () => {
    set(critical, { 'aria-pressed': String(!params.critical) });
    set(back, { href: format('traces', { ...params, id: null, at: null, critical: null }) });
    back.textContent = '← Traces';
    if (!trace) return;
    const top = trace.spans[0];
    const errors = trace.spans.filter((span) => span.failed).length;
    faults.disabled = !errors;
    const services = [...new Set(trace.spans.map((span) => span.service))];
    fill(title,
      h('h1', {}, top ? `${top.service} ${top.name}` : 'Trace'),
      h('p', {}, h('strong', { text: duration(trace.duration) }), ` · ${trace.spans.length + trace.left_out} spans · `,
        errors ? h('strong', { class: 'bad', text: `${errors} ${errors === 1 ? 'error' : 'errors'}` }) : 'no errors', ` · ${moment(trace.start)} · `, h('span', { class: 'dim code', text: trace.id })),
      h('p', {}, ...services.map((service) => chip(service, trace?.spans.filter((span) => span.service === service).length))),
      trace.left_out || trace.problems.length ? h('p', { class: 'note', text: [trace.left_out ? `${trace.left_out} spans are not shown` : '', ...trace.problems].filter(Boolean).join(' · ') }) : null);
    fill(ruler, ...[0, 0.25, 0.5, 0.75, 1].map((share) => {
      const mark = h('span', { text: duration((trace?.duration ?? 0) * share) });
      mark.style.left = `${share * 100}%`;
      return mark;
    }));
    fold();
  };

  const poller = poll(async (signal) => {
    if (!params.id) return 1;
    try {
      trace = await ask('/page/trace', { id: params.id, at: params.at }, signal);
      error.hidden = true;
    } catch (failure) {
      if (isAbort(failure)) throw failure;
      error.hidden = false;
      error.textContent = words(failure);
      return 5;
    }
    draw();
    // One that goes on may have gone on.
    return trace?.spans.every((span) => span.ended) ? null : 3;
  });

  return {
    element,
    show(now) {
      const before = params;
      params = now;
      draw();
      if (now.id !== before.id) poller.now();
    },
    refresh: draw,
    key(key) {
      if (key === 'c') critical.click();
      else if (key === 'e') nextError();
      else return false;
      return true;
    },
    keys: [['↑ ↓ ← →', 'go through spans, fold and unfold'], ['e', 'the next error'], ['c', 'the critical path']],
    close() {
      poller.close();
      rows.close();
    },
  };
}
