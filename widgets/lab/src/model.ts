/** The state of the cluster as this lab sees it, kept fresh while somebody can see it. */
import { ServerConnection } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { ApiError, ManagerApi } from './api';
import type { IFlavorView, IPlanAnswer, IWorkspace } from './records';
import type { IDevCluster } from './token';
import { isOpen } from './view';

const WAIT_S = 25;
const FLAVORS_EVERY_MS = 15_000;
const RETRY_FIRST_MS = 1_000;
const RETRY_LONGEST_MS = 15_000;

/**
 * Polls the manager while the document is visible, and sends what the person asks.
 *
 * A hidden tab asks nothing: it costs nobody anything, and keeps no hardware.
 */
export class ClusterModel implements IDevCluster, IDisposable {
  constructor(settings: ServerConnection.ISettings) {
    this._api = new ManagerApi(settings);
    document.addEventListener('visibilitychange', this._onVisibility);
    void this._run();
  }

  /** Emitted after any change of the properties below. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether this lab is a workspace; null while that is not known. */
  get isWorkspace(): boolean | null {
    return this._isWorkspace;
  }

  /** The workspace's id, `user/name`; empty while that is not known. */
  get workspaceName(): string {
    return this._api.workspaceId;
  }

  get workspace(): IWorkspace | null {
    return this._workspace;
  }

  get flavors(): IFlavorView[] {
    return this._flavors;
  }

  get plan(): IPlanAnswer | null {
    return this._plan;
  }

  /** Why the manager cannot be reached; empty while it can. */
  get trouble(): string {
    return this._trouble;
  }

  /** What the manager said to the last thing that the person asked, if it refused. */
  get refusal(): string {
    return this._refusal;
  }

  /** The request under way, such as `switch:1xA100`; empty if there is none. */
  get asking(): string {
    return this._asking;
  }

  /** Now by the manager's clock, in seconds since the epoch. */
  get now(): number {
    return Date.now() / 1000 - (this._skew ?? 0);
  }

  /** Whether no kernel of this lab can answer just now, and that is as it should be. */
  get away(): boolean {
    const state = this._workspace?.state;
    return (
      state === 'deflated' ||
      state === 'deflating' ||
      state === 'inflating' ||
      (state === 'switching' && isOpen(this._workspace?.move ?? null))
    );
  }

  switchTo(flavor: string): Promise<boolean> {
    return this._ask(`switch:${flavor}`, () => this._api.switchTo(flavor));
  }

  deflate(): Promise<boolean> {
    return this._ask('deflate', () => this._api.deflate());
  }

  inflate(flavor: string | null = null): Promise<boolean> {
    return this._ask(`inflate:${flavor ?? ''}`, () => this._api.inflate(flavor));
  }

  answer(move: string, choice: string): Promise<boolean> {
    return this._ask(`answer:${choice}`, () => this._api.answer(move, choice));
  }

  cancel(): Promise<boolean> {
    return this._ask('cancel', () => this._api.cancel());
  }

  /** Ask what a switch to that flavor would carry and lose; `plan` then tells. */
  showPlan(flavor: string): Promise<boolean> {
    return this._ask('plan', async () => {
      this._plan = await this._api.plan(flavor);
    });
  }

  hidePlan(): void {
    this._plan = null;
    this._changed.emit();
  }

  dismissRefusal(): void {
    this._refusal = '';
    this._changed.emit();
  }

  /** Try again at once what waits for its next try. */
  retryNow(): void {
    this._wake.resolve();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    document.removeEventListener('visibilitychange', this._onVisibility);
    this._abort.abort();
    this._wake.resolve();
    Signal.clearData(this);
  }

  private async _ask(what: string, action: () => Promise<unknown>): Promise<boolean> {
    if (this._asking) {
      return false;
    }
    this._asking = what;
    this._refusal = '';
    this._changed.emit();
    try {
      await action();
      if (what !== 'plan') {
        this._plan = null;
        this._accept(await this._api.workspace());
      }
      return true;
    } catch (error) {
      this._refusal = error instanceof Error ? error.message : String(error);
      return false;
    } finally {
      this._asking = '';
      this._changed.emit();
    }
  }

  private async _run(): Promise<void> {
    let delay = RETRY_FIRST_MS;
    while (!this._isDisposed) {
      if (document.hidden) {
        await this._sleep(null);
        continue;
      }
      this._abort = new AbortController();
      try {
        await this._step(this._abort.signal);
        delay = RETRY_FIRST_MS;
      } catch (error) {
        if (this._abort.signal.aborted) {
          continue;
        }
        if (this._workspace === null && error instanceof ApiError && error.status === 404) {
          this._isWorkspace = false;
          this._changed.emit();
          return;
        }
        this._trouble = error instanceof Error ? error.message : String(error);
        this._changed.emit();
        await this._sleep(delay);
        delay = Math.min(delay * 2, RETRY_LONGEST_MS);
      }
    }
  }

  private async _step(signal: AbortSignal): Promise<void> {
    if (!this._isWorkspace) {
      await this._api.connect();
      this._isWorkspace = true;
    }
    const known = this._workspace;
    // After trouble ask for what is, not for what changes: the answer shows that all is well.
    const fresh = known === null || this._trouble !== '';
    const next = fresh
      ? this._api.workspace(signal)
      : this._api.nextWorkspace(known.since, WAIT_S, signal);
    if (this._flavorsDue()) {
      await this._refreshFlavors(signal);
    }
    const timer = setInterval(() => {
      this._refreshFlavors(signal).catch(() => undefined); // the poll itself reports trouble
    }, FLAVORS_EVERY_MS);
    try {
      const workspace = await next;
      this._trouble = '';
      const moved = JSON.stringify(workspace) !== JSON.stringify(this._workspace);
      if (!fresh && workspace.since > known.since) {
        // Told the moment it happened, so `since` is the manager's now; the least delay is best.
        this._skew = Math.min(this._skew ?? Infinity, Date.now() / 1000 - workspace.since);
      }
      this._accept(workspace);
      if (moved || fresh) {
        await this._refreshFlavors(signal);
      }
    } finally {
      clearInterval(timer);
    }
  }

  private _flavorsDue(): boolean {
    return Date.now() - this._flavorsAt > FLAVORS_EVERY_MS;
  }

  private async _refreshFlavors(signal: AbortSignal): Promise<void> {
    this._flavors = await this._api.flavors(signal);
    this._flavorsAt = Date.now();
    this._changed.emit();
  }

  private _accept(workspace: IWorkspace): void {
    if (this._workspace !== null && workspace.since < this._workspace.since) {
      return; // an answer that was overtaken by a newer one
    }
    this._workspace = workspace;
    this._changed.emit();
  }

  private async _sleep(ms: number | null): Promise<void> {
    this._wake = new PromiseDelegate<void>();
    const timer = ms === null ? undefined : setTimeout(() => this._wake.resolve(), ms);
    await this._wake.promise;
    clearTimeout(timer);
  }

  private readonly _onVisibility = (): void => {
    if (document.hidden) {
      this._abort.abort();
    } else {
      this._wake.resolve();
    }
  };

  private readonly _api: ManagerApi;
  private readonly _changed = new Signal<this, void>(this);
  private _abort = new AbortController();
  private _wake = new PromiseDelegate<void>();
  private _isDisposed = false;
  private _isWorkspace: boolean | null = null;
  private _workspace: IWorkspace | null = null;
  private _flavors: IFlavorView[] = [];
  private _flavorsAt = 0;
  private _plan: IPlanAnswer | null = null;
  private _trouble = '';
  private _refusal = '';
  private _asking = '';
  /** How many seconds the manager's clock is behind ours; null until there was a hint. */
  private _skew: number | null = null;
}
