import assert from 'node:assert/strict';
import { test } from 'node:test';
import { begin, word } from '../lib/complete.js';
import { both, test as only } from '../lib/filter.js';
import { layers } from '../lib/layers.js';
import { format, parse, range } from '../lib/route.js';
import { join, stats, title } from '../lib/series.js';

test('an address is read as it is written', () => {
  const params = { source: 'host:web1:44321', expr: 'a.b\nrate(c) > 1 & "d"', from: '-300' };
  assert.deepEqual(parse(format('charts', params)), { view: 'charts', params });
  assert.equal(format('', {}), '#/');
  assert.equal(format('charts', { source: 'host:a', table: null, join: '' }), '#/charts?source=host:a');
  assert.deepEqual(parse(''), { view: '', params: {} });
  assert.deepEqual(parse('#/events?filter=a%3D%3D1'), { view: 'events', params: { filter: 'a==1' } });
});

test('a window follows the end unless it says when it ends', () => {
  assert.deepEqual(range({}, 60), { from: -60, to: 0, live: true });
  assert.deepEqual(range({ from: '1700000000', to: '1700000060' }), { from: 1700000000, to: 1700000060, live: false });
  assert.deepEqual(range({ from: 'x', to: 'y' }, 5), { from: -5, to: 0, live: true });
});

test('lines with other times have no point where others have one', () => {
  assert.deepEqual(join([[1, 2], [1, 2]], [[5, null], [6, 7]]), [[1, 2], [5, null], [6, 7]]);
  assert.deepEqual(join([[1, 3], [2, 3]], [[5, 6], [7, null]]), [[1, 2, 3], [5, undefined, 6], [undefined, 7, null]]);
  assert.deepEqual(join([], []), [[]]);
});

test('what is said of a line counts its least and largest values', () => {
  const line = { inst: 0, name: 'a', t: [1, 2, 3], avg: [2, null, 4], min: [1, null, 4], max: [3, null, 9] };
  assert.deepEqual(stats(line), { last: 4, min: 1, avg: 3, max: 9 });
  assert.equal(stats({ ...line, avg: [null, null, null] }), null);
  const series = { expr: 'some.metric', lines: [], left_out: 0 };
  assert.equal(title(series, line, false), 'a');
  assert.equal(title(series, line, true), 'some.metric[a]');
  assert.equal(title(series, { ...line, name: '' }, false), 'some.metric');
});

test('the last word of an expression is what is completed', () => {
  assert.deepEqual(word('rate(kernel.all'), { before: 'rate(', word: 'kernel.all' });
  assert.deepEqual(word('a + '), { before: 'a + ', word: '' });
  assert.equal(begin(['kernel.all.load', 'kernel.all.pswitch']), 'kernel.all.');
  assert.equal(begin([]), '');
});

test('tests of a field are written as the filter language has it', () => {
  assert.equal(only('status', 503), 'status == 503');
  assert.equal(only('http.status', 'a "b"'), 'http.status == "a \\"b\\""');
  assert.equal(only('http.status-code', 1), '`http.status-code` == 1');
  assert.equal(only('end', true), '`end` == true');
  assert.equal(both('', 'a == 1'), 'a == 1');
  assert.equal(both('a == 1', 'b == 2'), 'a == 1 && b == 2');
  assert.equal(both('a == 1 || c == 3', 'b == 2'), '(a == 1 || c == 3) && b == 2');
});

test('callers are left of those that they call, also in circles', () => {
  const placed = (names, calls) => Object.fromEntries(layers(names, calls).map(({ name, layer, place }) => [name, [layer, place]]));
  assert.deepEqual(placed(['bank', 'orders', 'web', 'stock'], [['web', 'orders'], ['orders', 'bank'], ['web', 'bank'], ['orders', 'stock']]), {
    web: [0, 0], orders: [1, 0], bank: [2, 0], stock: [2, 1],
  });
  assert.deepEqual(placed(['a', 'b'], [['a', 'b'], ['b', 'a']]), { a: [0, 0], b: [1, 0] });
  assert.deepEqual(placed(['alone'], [['alone', 'alone']]), { alone: [0, 0] });
});
