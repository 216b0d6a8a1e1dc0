import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advance } from '../lib/density.js';
import { blocks } from '../lib/frames.js';

test('counts move on with the window, and what came is counted where it was', () => {
  const found = { start: 100, finish: 110, counts: [[1, 0], [2, 1], [3, 0], [4, 0], [5, 0]], records: [], total: 0, missed: 0, fields: [], problems: [] };
  const record = (seconds, failed) => ({ time: `${seconds}000000000`, source: 'a', flags: [], failed, fields: [] });
  advance(found, 104, 114, [record(111, true), record(113, false), { ...record(113, false), missed: 3 }]);
  assert.deepEqual([found.start, found.finish], [104, 114]);
  assert.deepEqual(found.counts, [[3, 0], [4, 0], [5, 0], [1, 1], [1, 0]]);
});

test('frames are as wide as their share, and one may be the whole', () => {
  const frame = (name, total, children = []) => ({ name, total, own: 0, count: 1, errors: 0, children });
  const root = frame('all', 10, [frame('a', 8, [frame('b', 4)]), frame('c', 2)]);
  const placed = (path) => blocks(root, path).map(({ frame: { name }, depth, from, to }) => [name, depth, from, to]);
  assert.deepEqual(placed([]), [['all', 0, 0, 1], ['a', 1, 0, 0.8], ['b', 2, 0, 0.4], ['c', 1, 0.8, 1]]);
  assert.deepEqual(placed(['a']), [['all', 0, 0, 1], ['a', 1, 0, 1], ['b', 2, 0, 0.5]]);
  assert.deepEqual(placed(['gone']), placed([]));
});
