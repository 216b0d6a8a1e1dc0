// Hosts and archives: what there is, and how it is.

import { fill, h } from '../lib/dom.js';
import { ago, bytes, duration, moment } from '../lib/format.js';
import { format } from '../lib/route.js';

/** @typedef {import('../types').App} App */
/** @typedef {import('../types').Hosts} Hosts */
/** @typedef {import('../types').Host} Host */
/** @typedef {import('../types').Archive} Archive */

const WORDS = { up: 'up', down: 'down', unknown: 'connecting' };

/**
 * @param {App} app
 * @param {{ view: string, title: string }[]} views those that show a source
 * @returns {import('../types').View}
 */
export function overview(app, views) {
  const hosts = h('section', { 'aria-labelledby': 'hosts-title' });
  const archives = h('section', { 'aria-labelledby': 'archives-title' });
  const problems = h('section', {});
  const element = h('div', { class: 'overview' }, h('h1', { text: 'Overview' }), hosts, archives, problems);
  let before = '';

  const refresh = () => {
    const found = app.hosts();
    if (!found) return;
    // What has not changed stays: whoever reads or has the focus is not disturbed.
    const now = JSON.stringify([found.hosts, found.archives, found.problems, Math.floor(found.now / 10)]);
    if (now === before) return;
    before = now;
    const focused = document.activeElement?.getAttribute('href');
    drawHosts(hosts, found, views);
    drawArchives(archives, found);
    fill(problems, ...(found.problems.length ? [
      h('h2', { text: 'Problems' }), h('ul', { class: 'problems' }, ...found.problems.map((text) => h('li', { text }))),
    ] : []));
    if (focused && !element.contains(document.activeElement)) {
      for (const link of element.querySelectorAll('a')) if (link.getAttribute('href') === focused) link.focus();
    }
  };
  return { element, show: refresh, refresh, close() {} };
}

/**
 * @param {HTMLElement} section
 * @param {Hosts} found
 * @param {{ view: string, title: string }[]} views
 */
function drawHosts(section, found, views) {
  if (!found.hosts.length) return fill(section);
  const down = found.hosts.filter((host) => host.state === 'down').length;
  fill(section,
    h('h2', { id: 'hosts-title' }, 'Hosts ', h('span', { class: 'count', text: down ? `${found.hosts.length}, ${down} down` : found.hosts.length })),
    h('ul', { class: 'cards' }, ...found.hosts.map((host) => h('li', { class: `card ${host.state}` },
      h('h3', {}, h('span', { class: `dot ${host.state}`, 'aria-hidden': 'true' }), host.host ?? host.name),
      h('p', { class: 'state' }, h('strong', { text: WORDS[host.state] }),
        host.since === null ? '' : ` since ${moment(host.since)}`),
      host.problem ? h('p', { class: 'problem', text: host.problem }) : null,
      h('p', { class: 'dim', text: [host.name === host.host ? '' : host.name,
        host.archives ? `${host.archives} ${host.archives === 1 ? 'archive' : 'archives'}` : 'not recorded'].filter(Boolean).join(' · ') }),
      h('p', { class: 'links' }, ...views.map(({ view, title }) => h('a', { href: format(view, { source: host.source }), text: title }))),
    ))));
}

/**
 * @param {HTMLElement} section
 * @param {Hosts} found
 */
function drawArchives(section, found) {
  if (!found.archives.length) return fill(section);
  const start = Math.min(...found.archives.map((archive) => archive.start));
  const last = Math.max(...found.archives.map((archive) => archive.last), start + 1);
  /** @type {Map<string, Archive[]>} */
  const byHost = new Map();
  for (const archive of [...found.archives].sort((one, other) => one.start - other.start)) {
    byHost.set(archive.host, [...(byHost.get(archive.host) ?? []), archive]);
  }
  const rows = [...byHost].sort(([one], [other]) => one.localeCompare(other)).map(([host, archives]) => {
    const bar = h('div', { class: 'timeline', 'aria-hidden': 'true' }, ...archives.map((archive) => {
      const piece = h('i', { class: archive.growing ? 'growing' : '', title: `${archive.name}\n${moment(archive.start)} – ${moment(archive.last)}` });
      piece.style.left = `${((archive.start - start) / (last - start)) * 100}%`;
      piece.style.width = `max(3px, ${((archive.last - archive.start) / (last - start)) * 100}%)`;
      return piece;
    }));
    const link = (/** @type {Archive} */ archive) => h('li', {},
      h('a', { href: format('charts', { source: archive.source }), text: archive.name.split('/').pop() ?? archive.name, title: archive.name }),
      h('span', { class: 'dim', text: ` ${moment(archive.start)} for ${duration(archive.last - archive.start)}, ${bytes(archive.bytes)}${archive.growing ? ', growing' : ''}` }));
    const all = archives.length === 1 && archives[0] ? [link(archives[0])] : archives.map(link);
    const newest = Math.max(...archives.map((archive) => archive.last));
    return h('tr', {},
      h('th', { scope: 'row' }, h('a', { href: format('charts', { source: `recorded:${host}` }), text: host })),
      h('td', { class: 'number', text: archives.length }),
      h('td', { class: 'number', text: bytes(archives.reduce((sum, archive) => sum + archive.bytes, 0)) }),
      h('td', { class: 'time', text: moment(Math.min(...archives.map((archive) => archive.start))) }),
      h('td', { class: 'time' }, moment(newest), h('span', { class: 'dim', text: ` ${ago(found.now - newest)}` })),
      h('td', { class: 'wide' }, bar, h('details', {}, h('summary', { text: archives.length === 1 ? 'archive' : 'archives' }), h('ul', { class: 'plain' }, ...all))));
  });
  fill(section,
    h('h2', { id: 'archives-title' }, 'Archives ', h('span', { class: 'count', text: found.archives.length + found.left_out })),
    found.left_out ? h('p', { class: 'note', text: `${found.left_out} older ones are not listed` }) : null,
    h('div', { class: 'scroll' }, h('table', { class: 'sheet' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', text: 'Host' }), h('th', { scope: 'col', class: 'number', text: 'Archives' }),
        h('th', { scope: 'col', class: 'number', text: 'Size' }), h('th', { scope: 'col', text: 'Begins' }), h('th', { scope: 'col', text: 'Ends' }),
        h('th', { scope: 'col', class: 'wide', text: 'When' }))),
      h('tbody', {}, ...rows))));
}
