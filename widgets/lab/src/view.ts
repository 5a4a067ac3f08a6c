/**
 * From the manager's records to what the person reads. Pure: no DOM, no clock, no network.
 */
import type {
  IFlavor,
  IFlavorView,
  IMove,
  IPlanAnswer,
  IStepReport,
  IWorkspace,
  MoveKind,
  Step
} from './records';

/** A row of the progress list: one step as people see it, often several of the manager's. */
export interface IStepRow {
  key: string;
  label: string;
  hint: string;
  status: 'pending' | 'active' | 'done' | 'failed' | 'stopped';
  seconds: number | null;
  note: string;
}

export interface IChoice {
  choice: string;
  label: string;
  /** Whether the move goes on by it and nothing is lost, so that it may be proposed. */
  harmless: boolean;
}

export interface IQuestionView {
  kind: 'busy' | 'loss';
  title: string;
  text: string;
  items: string[];
  choices: IChoice[];
}

/** Everything about the newest move. */
export interface IMoveView {
  id: string;
  title: string;
  status: IMove['status'];
  /** Whether it goes on: queued, running or asking. */
  open: boolean;
  rows: IStepRow[];
  totalSeconds: number | null;
  cancellable: boolean;
  /** A sentence about the queue or the outcome; empty while steps are running. */
  sentence: string;
  question: IQuestionView | null;
}

export type Tone = 'good' | 'moving' | 'waiting' | 'resting' | 'bad';

export interface IHardwareView {
  title: string;
  gpus: string;
  host: string;
  badge: string;
  tone: Tone;
  /** Since when it is so, in seconds since the epoch. */
  since: number;
  reason: string;
}

export interface IFlavorRow {
  name: string;
  title: string;
  detail: string;
  free: string;
  available: boolean;
  current: boolean;
  action: 'Switch' | 'Queue' | 'Inflate';
  enabled: boolean;
  /** Why the button cannot be pressed, or what it will do. */
  hint: string;
}

export interface IPlanView {
  title: string;
  lines: { text: string; tone: 'good' | 'bad' | 'plain' }[];
}

interface IGroup {
  key: string;
  label: string;
  hint: string;
  members: Step[];
}

const PREPARE: IGroup = {
  key: 'prepare',
  label: 'Prepare',
  hint: 'Make the new place ready; work on meanwhile',
  members: ['prepare']
};
const CHECK: IGroup = {
  key: 'check',
  label: 'Check',
  hint: 'See that everything can move',
  members: ['check']
};
const CAPTURE: IGroup = {
  key: 'capture',
  label: 'Capture',
  hint: 'Save the kernels',
  members: ['park', 'capture']
};
const SEND: IGroup = { key: 'send', label: 'Send', hint: 'Carry state and files', members: ['send'] };
const RESTORE: IGroup = {
  key: 'restore',
  label: 'Restore',
  hint: 'Load the kernels',
  members: ['restore']
};
const REROUTE: IGroup = {
  key: 'reroute',
  label: 'Reroute',
  hint: 'Lead this tab to the new place',
  members: ['commit', 'reroute', 'release']
};

/** What each kind of move consists of, for people; follows `core/lifecycle.py`. */
const GROUPS: Record<MoveKind, IGroup[]> = {
  start: [PREPARE, REROUTE],
  switch: [PREPARE, CHECK, CAPTURE, SEND, RESTORE, REROUTE],
  deflate: [CHECK, CAPTURE, { ...REROUTE, hint: 'Free the hardware' }],
  inflate: [PREPARE, SEND, RESTORE, REROUTE],
  stop: [{ ...REROUTE, label: 'Stop', hint: 'End the server' }]
};

const COMMITTED: Step[] = ['commit', 'reroute', 'release'];

const CHOICES: Record<string, Record<string, string>> = {
  busy: { wait: 'Wait for it', interrupt: 'Interrupt it', cancel: 'Cancel' },
  loss: { accept: 'Move without them', cancel: 'Cancel' }
};

/**
 * Text from elsewhere, fit to be shown: control characters and those that turn the
 * direction of writing become visible, and a long one is cut.
 */
export function printable(text: string, limit = 2000): string {
  const shown = text.replace(
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')
  );
  return shown.length > limit ? shown.slice(0, limit) + ' …' : shown;
}

export function formatBytes(amount: number): string {
  let size = amount;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (size < 1024) {
      return `${unit === 'B' ? size : Number(size.toPrecision(3))} ${unit}`;
    }
    size /= 1024;
  }
  return `${Number(size.toPrecision(3))} TiB`;
}

export function formatSeconds(seconds: number): string {
  const positive = Math.max(0, seconds);
  if (positive < 60) {
    return `${positive.toFixed(1)} s`;
  }
  const whole = Math.round(positive);
  const rest = String(whole % 60).padStart(2, '0');
  return whole < 3600
    ? `${Math.floor(whole / 60)}:${rest} min`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function ordinal(n: number): string {
  const tens = n % 100;
  const suffix = tens > 10 && tens < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');
  return `${n}${suffix}`;
}

/** What people call a flavor; its name where the list does not have it. */
export function flavorTitle(name: string | null, flavors: IFlavorView[]): string {
  const found = flavors.find(view => view.flavor.name === name)?.flavor;
  return printable(found?.title || name || '');
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}

function flavorDetail(flavor: IFlavor): string {
  const parts = [count(flavor.cpus, 'CPU'), formatBytes(flavor.memory)];
  const gpus = `${flavor.gpus} × ${printable(flavor.gpu_model ?? '')}`;
  if (flavor.gpus && !flavor.title.includes(gpus)) {
    parts.push(gpus);
  }
  return parts.join(' · ');
}

/** Whether a move goes on. */
export function isOpen(move: IMove | null): boolean {
  return move !== null && ['queued', 'running', 'asking'].includes(move.status);
}

/**
 * Whether a move that failed left everything as it was before: the manager says so by the
 * state, since a source that has ended meanwhile makes the workspace `failed`.
 */
export function wentBack(workspace: IWorkspace): boolean {
  const move = workspace.move;
  if (move?.status !== 'failed') {
    return false;
  }
  return workspace.state === (move.kind === 'inflate' ? 'deflated' : 'running');
}

function row(group: IGroup, move: IMove, now: number): IStepRow {
  const reports = move.steps.filter(report => group.members.includes(report.step));
  const base = { key: group.key, label: group.label, hint: group.hint };
  const first = reports[0];
  if (first === undefined) {
    const status = move.status === 'done' ? 'done' : 'pending';
    return { ...base, status, seconds: null, note: '' };
  }
  const note = printable(reports.map(report => report.note).filter(Boolean).join(' '));
  const unfinished = reports.some(report => report.ended === null);
  const end = unfinished
    ? (move.ended ?? now)
    : Math.max(...reports.map(report => report.ended ?? 0));
  return {
    ...base,
    status: rowStatus(group, reports, move),
    seconds: Math.max(0, end - first.began),
    note
  };
}

function rowStatus(group: IGroup, reports: IStepReport[], move: IMove): IStepRow['status'] {
  const last = move.steps[move.steps.length - 1];
  const isLast = last !== undefined && group.members.includes(last.step);
  if (isLast && (move.status === 'failed' || move.status === 'cancelled')) {
    return move.status === 'failed' ? 'failed' : 'stopped';
  }
  const unfinished = reports.some(report => report.ended === null);
  const more = reports.length < group.members.length && isLast && isOpen(move);
  return unfinished || more ? 'active' : 'done';
}

const DOING: Record<MoveKind, (flavor: string) => string> = {
  start: flavor => `Starting on ${flavor}`,
  switch: flavor => `Switching to ${flavor}`,
  deflate: () => 'Deflating',
  inflate: flavor => `Inflating on ${flavor}`,
  stop: () => 'Stopping'
};

const DONE: Record<MoveKind, (flavor: string) => string> = {
  start: flavor => `Started on ${flavor}`,
  switch: flavor => `Moved to ${flavor}`,
  deflate: () => 'Deflated',
  inflate: flavor => `Inflated on ${flavor}`,
  stop: () => 'Stopped'
};

const NOUN: Record<MoveKind, string> = {
  start: 'The start',
  switch: 'The switch',
  deflate: 'Deflating',
  inflate: 'Inflating',
  stop: 'The stop'
};

function sentence(move: IMove, flavor: string, total: number | null): string {
  const reason = printable(move.reason);
  switch (move.status) {
    case 'queued': {
      const place = move.place === null ? 'Queued' : `${ordinal(move.place)} in the queue`;
      return `${place} for ${flavor}: ${reason || 'waits until hardware is free.'}`;
    }
    case 'done': {
      const took = total === null ? '' : ` in ${formatSeconds(total)}`;
      const pause = move.pause_s === null ? '' : `, paused ${formatSeconds(move.pause_s)}`;
      return `${DONE[move.kind](flavor)}${took}${pause}.`;
    }
    case 'failed':
      return `${NOUN[move.kind]} did not work: ${reason || 'no reason was given.'}`;
    case 'cancelled':
      return reason || `${NOUN[move.kind]} was cancelled.`;
    default:
      return reason;
  }
}

function question(move: IMove): IQuestionView | null {
  const asked = move.status === 'asking' ? move.question : null;
  if (asked === null) {
    return null;
  }
  const labels = CHOICES[asked.kind] ?? {};
  return {
    kind: asked.kind,
    title: asked.kind === 'busy' ? 'A cell is running' : 'Not everything can move',
    text: printable(asked.text),
    items: asked.items.map(item => printable(item)),
    choices: asked.choices.map(choice => ({
      choice,
      label: labels[choice] ?? printable(choice),
      harmless: choice === 'wait'
    }))
  };
}

/**
 * Show a move.
 *
 * @param now - seconds since the epoch by the manager's clock
 */
export function moveView(move: IMove, flavors: IFlavorView[], now: number): IMoveView {
  const flavor = flavorTitle(move.flavor, flavors) || 'this flavor';
  const began = move.steps[0]?.began ?? null;
  const total = began === null ? null : Math.max(0, (move.ended ?? now) - began);
  const committed = move.steps.some(report => COMMITTED.includes(report.step));
  return {
    id: move.id,
    title: isOpen(move) ? DOING[move.kind](flavor) : NOUN[move.kind],
    status: move.status,
    open: isOpen(move),
    rows: GROUPS[move.kind].map(group => row(group, move, now)),
    totalSeconds: total,
    cancellable: isOpen(move) && !committed && move.kind !== 'stop',
    sentence: sentence(move, flavor, total),
    question: question(move)
  };
}

const BADGES: Record<IWorkspace['state'], [string, Tone]> = {
  created: ['new', 'resting'],
  starting: ['starting', 'moving'],
  running: ['running', 'good'],
  switching: ['switching', 'moving'],
  deflating: ['deflating', 'moving'],
  deflated: ['deflated', 'resting'],
  inflating: ['inflating', 'moving'],
  stopping: ['stopping', 'moving'],
  stopped: ['stopped', 'resting'],
  failed: ['failed', 'bad']
};

export function hardwareView(workspace: IWorkspace, flavors: IFlavorView[]): IHardwareView {
  const move = workspace.move;
  let [badge, tone] = BADGES[workspace.state];
  if (move?.status === 'queued') {
    [badge, tone] = [workspace.state === 'running' ? 'running, queued' : 'queued', 'waiting'];
  } else if (move?.status === 'asking') {
    [badge, tone] = ['asks you', 'waiting'];
  }
  const deflated = workspace.state === 'deflated';
  const models = new Map<string, number>();
  for (const gpu of workspace.gpus) {
    models.set(gpu.model, (models.get(gpu.model) ?? 0) + 1);
  }
  const gpus = [...models].map(([model, n]) => `${n} × ${printable(model)}`).join(', ');
  return {
    title: deflated ? 'No hardware' : flavorTitle(workspace.flavor, flavors) || 'No hardware yet',
    gpus: gpus || 'none',
    host: printable(workspace.host ?? '') || 'none',
    badge,
    tone,
    since: isOpen(move) ? workspace.since : (move?.ended ?? workspace.since),
    reason: workspace.state === 'failed' ? printable(workspace.reason) : ''
  };
}

export function flavorRow(view: IFlavorView, workspace: IWorkspace): IFlavorRow {
  const { flavor, free, total } = view;
  const deflated = workspace.state === 'deflated';
  const current = workspace.flavor === flavor.name && !deflated;
  const moving = isOpen(workspace.move);
  const rests = workspace.state === 'running' || deflated;
  const action = deflated ? 'Inflate' : free > 0 ? 'Switch' : 'Queue';
  let hint =
    free > 0 ? `${action} to ${flavorTitle(flavor.name, [view])}` : 'None is free: wait in the queue';
  if (total === 0) {
    hint = 'No host of this cluster has such hardware.';
  } else if (moving) {
    hint = 'A move is under way.';
  } else if (!rests) {
    hint = `The workspace is ${workspace.state}.`;
  }
  return {
    name: flavor.name,
    title: printable(flavor.title || flavor.name),
    detail: flavorDetail(flavor),
    free: total === 0 ? 'none here' : free > 0 ? `${free} free` : 'none free',
    available: free > 0,
    current,
    action,
    enabled: rests && !moving && !current && total > 0,
    hint
  };
}

/** What a switch would carry and lose, in lines. */
export function planView(answer: IPlanAnswer): IPlanView {
  const lines: IPlanView['lines'] = [];
  for (const kernel of answer.plan.kernels) {
    const title = printable(kernel.title || kernel.path || kernel.kernel_id);
    if (!kernel.portable) {
      lines.push({ text: `${title}: ${printable(kernel.reason)}`, tone: 'bad' });
    } else if (kernel.busy) {
      lines.push({ text: `${title}: runs a cell; you would be asked.`, tone: 'plain' });
    } else {
      const moved = kernel.variables.filter(variable => variable.kind !== 'refused').length;
      lines.push({
        text: `${title}: ${count(moved, 'variable')}, ${formatBytes(kernel.bytes)}`,
        tone: 'good'
      });
      for (const variable of kernel.variables.filter(one => one.kind === 'refused')) {
        const why = `${variable.reason} ${variable.remedy}`.trim();
        lines.push({ text: `${printable(variable.name)}: ${printable(why)}`, tone: 'bad' });
      }
    }
  }
  if (answer.plan.terminals > 0) {
    const open = count(answer.plan.terminals, 'open terminal');
    lines.push({ text: `${open}: programs in them end with the host.`, tone: 'bad' });
  }
  if (lines.length === 0) {
    lines.push({ text: 'No kernels are running: only files move.', tone: 'plain' });
  }
  const lost = lines.filter(line => line.tone === 'bad').length;
  return { title: lost ? `${count(lost, 'thing')} would not move` : 'Everything would move', lines };
}
