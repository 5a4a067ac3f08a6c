/**
 * What the manager tells: the records of `core/records.py` that the panel reads.
 *
 * Times are seconds since the epoch by the manager's clock, sizes bytes, CPUs cores.
 */

export type State =
  | 'created'
  | 'starting'
  | 'running'
  | 'switching'
  | 'deflating'
  | 'deflated'
  | 'inflating'
  | 'stopping'
  | 'stopped'
  | 'failed';

export type MoveKind = 'start' | 'switch' | 'deflate' | 'inflate' | 'stop';

export type Step =
  | 'prepare'
  | 'check'
  | 'park'
  | 'capture'
  | 'send'
  | 'restore'
  | 'commit'
  | 'reroute'
  | 'release';

export interface IGpu {
  uuid: string;
  model: string;
  memory: number;
}

export interface IFlavor {
  name: string;
  title: string;
  gpu_model: string | null;
  gpus: number;
  cpus: number;
  memory: number;
}

export interface IFlavorView {
  flavor: IFlavor;
  free: number;
  total: number;
}

export interface IStepReport {
  step: Step;
  began: number;
  ended: number | null;
  note: string;
}

export interface IQuestion {
  kind: 'busy' | 'loss';
  text: string;
  items: string[];
  choices: string[];
}

export interface IVariablePlan {
  name: string;
  kind: 'carried' | 'rebuilt' | 'refused';
  bytes: number;
  reason: string;
  remedy: string;
}

export interface IKernelPlan {
  kernel_id: string;
  kernel_name: string;
  path: string;
  title: string;
  busy: boolean;
  portable: boolean;
  reason: string;
  bytes: number;
  variables: IVariablePlan[];
}

export interface IPlan {
  kernels: IKernelPlan[];
  terminals: number;
}

export interface IPlanAnswer {
  flavor: IFlavor;
  free: boolean;
  plan: IPlan;
}

export interface IMove {
  id: string;
  workspace: string;
  kind: MoveKind;
  flavor: string | null;
  status: 'queued' | 'running' | 'asking' | 'done' | 'failed' | 'cancelled';
  place: number | null;
  steps: IStepReport[];
  question: IQuestion | null;
  reason: string;
  created: number;
  ended: number | null;
  pause_s: number | null;
}

export interface IWorkspace {
  id: string;
  user: string;
  name: string;
  state: State;
  wish: 'running' | 'deflated' | 'stopped';
  flavor: string | null;
  host: string | null;
  gpus: IGpu[];
  reason: string;
  move: IMove | null;
  since: number;
}

/** Where the manager is and what opens it, as `GET {base}devcluster/session` tells. */
export interface ISession {
  workspace: string;
  user: string;
  api: string;
  token: string;
}
