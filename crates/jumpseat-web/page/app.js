// The frame: which view is shown, of which host or archive, in which colours.

import { ask, poll, words } from './lib/api.js';
import { byId, fill, h, set } from './lib/dom.js';
import { format, parse } from './lib/route.js';
import { charts } from './views/charts.js';
import { events } from './views/events.js';
import { flame } from './views/flame.js';
import { overview } from './views/overview.js';
import { spans } from './views/spans.js';
import { traces } from './views/traces.js';

/** @typedef {import('./types').Hosts} Hosts */
/** @typedef {import('./types').View} View */
/** @typedef {import('./types').App} App */

/** @type {{ view: string, title: string, key: string, make: (app: App) => View }[]} */
const VIEWS = [
  { view: '', title: 'Overview', key: '1', make: (app) => overview(app, VIEWS.slice(1)) },
  { view: 'charts', title: 'Charts', key: '2', make: charts },
  { view: 'events', title: 'Events', key: '3', make: events },
  { view: 'traces', title: 'Traces', key: '4', make: traces },
  { view: 'spans', title: 'Spans', key: '5', make: spans },
  { view: 'flame', title: 'Flame', key: '6', make: flame },
];

const main = byId('main');
const status = byId('status');
const picker = /** @type {HTMLSelectElement} */ (byId('source'));
const themeButton = byId('theme');
const dialog = /** @type {HTMLDialogElement} */ (byId('keys'));
const THEMES = ['auto', 'light', 'dark'];

/** @type {Hosts | null} */
let hosts = null;
/** @type {{ name: string, view: View } | null} */
let shown = null;

/** @type {App} */
const app = {
  hosts: () => hosts,
  go(params, replace = false) {
    const route = parse(location.hash);
    const hash = format(route.view, { ...route.params, ...params });
    if (hash === location.hash) return;
    if (replace) {
      history.replaceState(null, '', hash);
      show();
    } else {
      location.hash = hash;
    }
  },
  say(text) {
    if (status.textContent !== text) status.textContent = text;
  },
  dark: () => matchMedia('(prefers-color-scheme: dark)').matches ? theme() !== 'light' : theme() === 'dark',
};

/** Shows what the address says. */
function show() {
  const route = parse(location.hash);
  const found = VIEWS.find(({ view }) => view === route.view) ?? VIEWS[0];
  if (!found) return;
  if (found.view && !route.params.source) {
    const source = remembered();
    // What is shown first is said in the address, too: a link to it is a link to the same.
    if (source) return app.go({ source }, true);
  }
  if (shown?.name !== found.view) {
    shown?.view.close();
    const view = found.make(app);
    shown = { name: found.view, view };
    fill(main, view.element);
    window.scrollTo(0, 0);
  }
  document.title = found.view ? `${found.title} · jumpseat` : 'jumpseat';
  drawNav(found.view, route.params.source ?? '');
  drawPicker(route.params.source ?? '');
  shown.view.show(route.params);
}

/** The source that was looked at last, if it is there; or the first. */
function remembered() {
  if (!hosts) return '';
  const all = [...hosts.hosts.map((host) => host.source), ...hosts.archives.map((archive) => `recorded:${archive.host}`)];
  const last = recall('source');
  return all.includes(last) ? last : all[0] ?? '';
}

/**
 * @param {string} current
 * @param {string} source
 */
function drawNav(current, source) {
  fill(byId('nav'), ...VIEWS.map(({ view, title, key }) => h('a', {
    href: format(view, view ? { source: source || remembered() } : {}), 'aria-current': view === current ? 'page' : null, title: `${title} (${key})`, text: title,
  })));
}

/** @param {string} source */
function drawPicker(source) {
  if (!hosts) return;
  const recorded = [...new Set(hosts.archives.map((archive) => archive.host))].sort();
  const options = [
    ...hosts.hosts.map((host) => ({ group: 'Hosts', value: host.source, text: (host.host && host.host !== host.name ? `${host.host} (${host.name})` : host.name) + (host.state === 'down' ? ', down' : '') })),
    ...recorded.map((host) => ({ group: 'Recorded', value: `recorded:${host}`, text: `${host}, archives` })),
  ];
  if (source && !options.some(({ value }) => value === source)) {
    options.push({ group: 'Archive', value: source, text: source.replace(/^\w+:/, '').split('/').pop() ?? source });
  }
  const now = JSON.stringify([options, source]);
  if (picker.dataset.options !== now) {
    picker.dataset.options = now;
    const groups = [...new Set(options.map(({ group }) => group))];
    fill(picker, ...(source ? [] : [h('option', { value: '', text: '–' })]), ...groups.map((group) => h('optgroup', { label: group },
      ...options.filter((option) => option.group === group).map(({ value, text }) => h('option', { value, text })))));
    picker.value = source;
  }
  /** @type {HTMLElement} */ (picker.parentElement).hidden = !options.length || !source;
}

picker.addEventListener('change', () => {
  keep('source', picker.value);
  const route = parse(location.hash);
  // Times of one source mean nothing in another one.
  location.hash = format(route.view || 'charts', { ...route.params, source: picker.value, from: null, to: null });
});

/**
 * What the browser remembers; nothing if it does not.
 * @param {string} name
 */
function recall(name) {
  try {
    return localStorage.getItem(`jumpseat.${name}`) ?? '';
  } catch {
    return '';
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
function keep(name, value) {
  try {
    localStorage.setItem(`jumpseat.${name}`, value);
  } catch { /* It does not remember, then. */ }
}

function theme() {
  const kept = recall('theme');
  return THEMES.includes(kept) ? kept : 'auto';
}

function drawTheme() {
  const now = theme();
  set(document.documentElement, { 'data-theme': now === 'auto' ? null : now });
  themeButton.textContent = { auto: '◐', light: '☀', dark: '☾' }[now] ?? '';
  const text = `Colours: ${now === 'auto' ? 'as the system' : now}`;
  set(themeButton, { 'aria-label': text, title: text });
}

themeButton.addEventListener('click', () => {
  keep('theme', THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? 'auto');
  drawTheme();
  shown?.view.refresh?.();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => shown?.view.refresh?.());

function drawHelp() {
  const rows = [
    ...VIEWS.map(({ key, title }) => [key, title]),
    ...(shown?.view.keys ?? []),
    ['?', 'this help'],
  ];
  fill(dialog, h('h2', { id: 'keys-title', text: 'Keys' }),
    h('table', { class: 'sheet' }, h('tbody', {}, ...rows.map(([key, text]) => h('tr', {}, h('th', { scope: 'row' }, h('kbd', { text: key })), h('td', { text }))))),
    h('p', { class: 'dim', text: 'All that a view shows is in its address: copy it to share it.' }),
    h('form', { method: 'dialog' }, h('button', { text: 'Close' })));
  dialog.showModal();
}
byId('help').addEventListener('click', drawHelp);

document.addEventListener('keydown', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.altKey || event.metaKey || dialog.open || target.closest('input, select, textarea')) return;
  const view = VIEWS.find(({ key }) => key === event.key);
  if (view) location.hash = format(view.view, view.view ? { source: parse(location.hash).params.source ?? remembered() } : {});
  else if (event.key === '?') drawHelp();
  else if (!shown?.view.key?.(event.key)) return;
  event.preventDefault();
});

// A link to a part of the page would be taken for a view.
byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

window.addEventListener('hashchange', show);
drawTheme();
poll(async (signal) => {
  /** @type {Hosts} */
  let found;
  try {
    found = await ask('/page/hosts', {}, signal);
    const before = hosts;
    hosts = found;
    tell(before, found);
  } catch (error) {
    if (signal.aborted) throw error;
    app.say(words(error));
    return 3;
  }
  if (shown) {
    const route = parse(location.hash);
    drawNav(shown.name, route.params.source ?? '');
    drawPicker(route.params.source ?? '');
    if (shown.name === '') shown.view.refresh?.();
    else if (!route.params.source) show();
  } else {
    show();
  }
  // Soon again while something is not known yet.
  return found.hosts.some((host) => host.state === 'unknown') ? 0.5 : 3;
});

/**
 * Says what has become of hosts.
 * @param {Hosts | null} before
 * @param {Hosts} now
 */
function tell(before, now) {
  const changed = now.hosts.filter((host) => {
    const old = before?.hosts.find((other) => other.source === host.source);
    return old && old.state !== host.state && host.state !== 'unknown' && old.state !== 'unknown';
  });
  if (changed.length) app.say(changed.map((host) => `${host.host ?? host.name} is ${host.state}`).join(', '));
  else if (status.textContent === 'jumpseat web does not answer') app.say('');
}
