import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  flavorRow,
  formatBytes,
  formatSeconds,
  hardwareView,
  moveView,
  ordinal,
  planView,
  printable,
  wentBack
} from '../lib/view.js';

const flavor = (name, title, gpus, model) => ({
  name,
  title,
  gpus,
  gpu_model: model,
  cpus: 4,
  memory: 16 * 2 ** 30
});
const flavors = [
  { flavor: flavor('cpu', '', 0, null), free: 3, total: 4 },
  { flavor: flavor('1xA100', '1 × A100', 1, 'A100'), free: 0, total: 2 },
  { flavor: flavor('8xH200', '8 × H200', 8, 'H200'), free: 0, total: 0 }
];
const move = extra => ({
  id: 'm1',
  workspace: 'alice/default',
  kind: 'switch',
  flavor: '1xA100',
  status: 'running',
  place: null,
  steps: [],
  question: null,
  reason: '',
  created: 100,
  ended: null,
  pause_s: null,
  ...extra
});
const workspace = extra => ({
  id: 'alice/default',
  user: 'alice',
  name: 'default',
  state: 'running',
  wish: 'running',
  flavor: 'cpu',
  host: 'host-1',
  gpus: [],
  reason: '',
  move: null,
  since: 100,
  ...extra
});
const step = (name, began, ended = null, note = '') => ({ step: name, began, ended, note });

test('park is shown within capture, commit and release within reroute', () => {
  const steps = [
    step('prepare', 100, 102),
    step('check', 102, 102.2),
    step('park', 102.2, 102.3),
    step('capture', 102.3, 102.7),
    step('send', 102.7, 102.8),
    step('restore', 102.8, 103),
    step('commit', 103, 103.1),
    step('reroute', 103.1, 103.2),
    step('release', 103.2, 103.4)
  ];
  const view = moveView(move({ steps, status: 'done', ended: 103.4, pause_s: 0.84 }), flavors, 200);
  assert.deepEqual(
    view.rows.map(row => [row.key, row.status, row.seconds.toFixed(1)]),
    [
      ['prepare', 'done', '2.0'],
      ['check', 'done', '0.2'],
      ['capture', 'done', '0.5'],
      ['send', 'done', '0.1'],
      ['restore', 'done', '0.2'],
      ['reroute', 'done', '0.4']
    ]
  );
  assert.equal(view.sentence, 'Moved to 1 × A100 in 3.4 s, paused 0.8 s.');
  assert.equal(view.cancellable, false);
});

test('a step under way counts from its begin to now, and the rest is to come', () => {
  const view = moveView(
    move({ steps: [step('prepare', 100, 101), step('check', 101, 101.1), step('park', 101.1)] }),
    flavors,
    104.1
  );
  assert.deepEqual(
    view.rows.map(row => row.status),
    ['done', 'done', 'active', 'pending', 'pending', 'pending']
  );
  assert.equal(view.rows[2].seconds.toFixed(1), '3.0');
  assert.equal(view.totalSeconds.toFixed(1), '4.1');
  assert.equal(view.cancellable, true);
});

test('between two steps of one row the row is still under way', () => {
  const view = moveView(move({ steps: [step('park', 100, 101)] }), flavors, 102);
  assert.equal(view.rows[2].status, 'active');
});

test('what is committed cannot be cancelled', () => {
  const view = moveView(move({ steps: [step('restore', 1, 2), step('commit', 2)] }), flavors, 3);
  assert.equal(view.cancellable, false);
});

test('a failed move shows where and why', () => {
  const view = moveView(
    move({
      status: 'failed',
      reason: 'the target does not answer',
      ended: 103,
      steps: [step('prepare', 100, 101), step('check', 101, 103)]
    }),
    flavors,
    900
  );
  assert.deepEqual(
    view.rows.map(row => row.status).slice(0, 3),
    ['done', 'failed', 'pending']
  );
  assert.equal(view.sentence, 'The switch did not work: the target does not answer');
  assert.equal(view.totalSeconds, 3);
});

test('a queued move tells its place and can be cancelled', () => {
  const view = moveView(move({ status: 'queued', place: 2, reason: 'waits for a GPU.' }), flavors, 0);
  assert.equal(view.sentence, '2nd in the queue for 1 × A100: waits for a GPU.');
  assert.equal(view.cancellable, true);
});

test('each question has words for its choices, and unknown choices are shown as they are', () => {
  const question = {
    kind: 'loss',
    text: 'Two variables cannot move.',
    items: ['gen: a generator'],
    choices: ['accept', 'cancel', 'other']
  };
  const view = moveView(move({ status: 'asking', question }), flavors, 0);
  assert.deepEqual(
    view.question.choices.map(one => one.label),
    ['Move without them', 'Cancel', 'other']
  );
  assert.equal(moveView(move({ status: 'running', question }), flavors, 0).question, null);
});

test('flavors tell what their button does, and why it cannot be pressed', () => {
  const [cpu, a100, h200] = flavors.map(view => flavorRow(view, workspace()));
  assert.deepEqual([cpu.current, cpu.enabled, cpu.title], [true, false, 'cpu']);
  assert.deepEqual([a100.action, a100.enabled, a100.free], ['Queue', true, 'none free']);
  assert.deepEqual([h200.enabled, h200.free], [false, 'none here']);
  assert.equal(cpu.detail, '4 CPUs · 16 GiB');
  assert.equal(a100.detail, '4 CPUs · 16 GiB');
  const named = { ...flavors[1], flavor: { ...flavors[1].flavor, title: 'Big' } };
  assert.equal(flavorRow(named, workspace()).detail, '4 CPUs · 16 GiB · 1 × A100');
  const moving = flavorRow(flavors[1], workspace({ move: move() }));
  assert.deepEqual([moving.enabled, moving.hint], [false, 'A move is under way.']);
  const deflated = flavorRow(flavors[0], workspace({ state: 'deflated' }));
  assert.deepEqual([deflated.action, deflated.enabled, deflated.current], ['Inflate', true, false]);
});

test('the current hardware counts GPUs by model', () => {
  const gpus = ['a', 'b'].map(uuid => ({ uuid, model: 'V100', memory: 1 }));
  const view = hardwareView(workspace({ flavor: '2xV100', gpus }), flavors);
  assert.deepEqual([view.title, view.gpus, view.badge], ['2xV100', '2 × V100', 'running']);
  const queued = hardwareView(workspace({ move: move({ status: 'queued' }) }), flavors);
  assert.equal(queued.badge, 'running, queued');
  const deflated = hardwareView(workspace({ state: 'deflated', host: null }), flavors);
  assert.deepEqual([deflated.title, deflated.host], ['No hardware', 'none']);
});

test('a plan names what would be lost', () => {
  const variable = (name, kind) => ({ name, kind, bytes: 1, reason: 'is open', remedy: 'Close it.' });
  const kernel = {
    kernel_id: 'k',
    kernel_name: 'python3',
    path: '',
    title: 'a.ipynb',
    busy: false,
    portable: true,
    reason: '',
    bytes: 2048,
    variables: [variable('x', 'carried'), variable('f', 'refused')]
  };
  const view = planView({ flavor: flavors[0].flavor, free: true, plan: { kernels: [kernel], terminals: 2 } });
  assert.equal(view.title, '2 things would not move');
  assert.deepEqual(
    view.lines.map(line => line.text),
    [
      'a.ipynb: 1 variable, 2 KiB',
      'f: is open Close it.',
      '2 open terminals: programs in them end with the host.'
    ]
  );
});

test('b48: control characters and turned writing are shown, never sent on', () => {
  assert.equal(printable('a\u001b[2J\u202eb\r\nc'), 'a\\u001b[2J\\u202eb\\u000d\nc');
  assert.equal(printable('x'.repeat(3000)).length, 2002);
  const hostile = '<img src=x onerror=alert(1)>\u0007';
  const view = moveView(move({ status: 'failed', reason: hostile }), [], 0);
  assert.ok(view.sentence.endsWith('<img src=x onerror=alert(1)>\\u0007'));
});

test('amounts and times for people', () => {
  assert.deepEqual([1, 2, 3, 4, 11, 12, 21, 112].map(ordinal), [
    '1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '112th'
  ]);
  assert.deepEqual([0, 3.24, 59.9, 75, 3700].map(formatSeconds), [
    '0.0 s', '3.2 s', '59.9 s', '1:15 min', '1 h 1 min'
  ]);
  assert.deepEqual([512, 1536, 16 * 2 ** 30].map(formatBytes), ['512 B', '1.5 KiB', '16 GiB']);
});

test('nothing was lost is said only where the workspace is where it was', () => {
  const said = (state, status, kind = 'switch') =>
    wentBack(workspace({ state, move: move({ status, kind }) }));
  assert.equal(said('running', 'failed'), true);
  assert.equal(said('running', 'failed', 'deflate'), true);
  assert.equal(said('deflated', 'failed', 'inflate'), true);
  assert.equal(said('failed', 'failed'), false);
  assert.equal(said('switching', 'failed'), false);
  assert.equal(said('running', 'cancelled'), false);
  assert.equal(wentBack(workspace({ state: 'running', move: null })), false);
});
