/**
 * The manager's REST interface, as the panel uses it; `hub_ext/client.py` is the contract.
 *
 * The Jupyter server is asked once, for the address and the token. All else goes to the
 * manager itself, so it works while that server is parked or gone, and no request of the
 * panel counts as activity of the person.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { IFlavorView, IMove, IPlanAnswer, ISession, IWorkspace } from './records';

const SESSION_TIMEOUT_MS = 15_000;
const CALL_TIMEOUT_MS = 15_000;
const PLAN_TIMEOUT_MS = 90_000;

/** A refusal with the manager's own words, or the news that it cannot be reached. */
export class ApiError extends Error {
  /** @param status - the HTTP status; 0 if there was no answer */
  constructor(
    message: string,
    readonly status: number
  ) {
    super(message);
  }

  /** Whether nothing is known: the manager, or what is before it, does not answer. */
  get unreachable(): boolean {
    return this.status === 0 || this.status >= 502;
  }
}

interface ICallOptions {
  body?: object;
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
}

/** Talks to the manager for the workspace that this lab belongs to. */
export class ManagerApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** The workspace's id once known, `user/name`. */
  get workspaceId(): string {
    return this._session?.workspace ?? '';
  }

  /**
   * Ask the Jupyter server where the manager is.
   *
   * @throws ApiError with status 404 where this server is no workspace
   */
  async connect(): Promise<void> {
    const url = URLExt.join(this._settings.baseUrl, 'devcluster/session');
    const abort = AbortSignal.timeout(SESSION_TIMEOUT_MS);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, { signal: abort }, this._settings);
    } catch (error) {
      throw new ApiError(`The workspace's server does not answer: ${String(error)}`, 0);
    }
    if (!response.ok) {
      throw new ApiError(
        `The workspace's server refused to tell where the manager is (HTTP ${response.status}).`,
        response.status
      );
    }
    this._session = (await response.json()) as ISession;
  }

  flavors(signal?: AbortSignal): Promise<IFlavorView[]> {
    return this._call('GET', '/api/flavors', { signal });
  }

  workspace(signal?: AbortSignal): Promise<IWorkspace> {
    return this._call('GET', this._at(''), { signal });
  }

  /** Wait until the workspace or its move changes after `since`, at most `waitS` seconds. */
  nextWorkspace(since: number, waitS: number, signal?: AbortSignal): Promise<IWorkspace> {
    return this._call('GET', this._at(`?wait=${waitS}&after=${since}`), {
      signal,
      timeoutMs: waitS * 1000 + CALL_TIMEOUT_MS
    });
  }

  switchTo(flavor: string): Promise<IMove> {
    return this._call('POST', this._at('/switch'), {
      body: { flavor, on_busy: 'ask', on_loss: 'ask' }
    });
  }

  deflate(): Promise<IMove> {
    return this._call('POST', this._at('/deflate'), { body: { on_busy: 'ask', on_loss: 'ask' } });
  }

  inflate(flavor: string | null): Promise<IMove> {
    return this._call('POST', this._at('/inflate'), { body: { flavor } });
  }

  answer(move: string, choice: string): Promise<IMove> {
    return this._call('POST', this._at('/answer'), { body: { move, choice } });
  }

  cancel(): Promise<IMove> {
    return this._call('POST', this._at('/cancel'), { body: {} });
  }

  plan(flavor: string): Promise<IPlanAnswer> {
    return this._call('POST', this._at('/plan'), { body: { flavor }, timeoutMs: PLAN_TIMEOUT_MS });
  }

  private _at(rest: string): string {
    const [user = '', name = ''] = this.workspaceId.split('/');
    return `/api/workspaces/${encodeURIComponent(user)}/${encodeURIComponent(name)}${rest}`;
  }

  private async _call<T>(method: string, path: string, options: ICallOptions): Promise<T> {
    let response = await this._fetch(method, path, options);
    if (response.status === 401 || response.status === 403) {
      // The token may have been replaced; the server has the newest.
      const old = this._session?.token;
      await this.connect();
      if (this._session?.token !== old) {
        response = await this._fetch(method, path, options);
      }
    }
    if (!response.ok) {
      throw new ApiError(await refusal(response), response.status);
    }
    try {
      return (await response.json()) as T;
    } catch {
      throw new ApiError('The answer was cut short or is not of the manager.', 0);
    }
  }

  private async _fetch(method: string, path: string, options: ICallOptions): Promise<Response> {
    const session = this._session;
    if (session === null) {
      throw new ApiError('Not connected to the manager yet.', 0);
    }
    const timeout = AbortSignal.timeout(options.timeoutMs ?? CALL_TIMEOUT_MS);
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    timeout.addEventListener('abort', abort);
    options.signal?.addEventListener('abort', abort);
    if (options.signal?.aborted) {
      abort();
    }
    try {
      return await fetch(session.api.replace(/\/$/, '') + path, {
        method,
        cache: 'no-store',
        headers: { Authorization: `token ${session.token}`, 'Content-Type': 'application/json' },
        body: options.body === undefined ? null : JSON.stringify(options.body),
        signal: controller.signal
      });
    } catch (error) {
      const why = timeout.aborted ? 'no answer in time' : String(error);
      throw new ApiError(`The Dev Cluster manager cannot be reached: ${why}`, 0);
    } finally {
      options.signal?.removeEventListener('abort', abort);
    }
  }

  private _session: ISession | null = null;
}

async function refusal(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { message?: unknown };
    if (typeof body.message === 'string') {
      return body.message;
    }
  } catch {
    // A proxy's page, not the manager's words.
  }
  return response.status >= 502
    ? `The Dev Cluster manager cannot be reached (HTTP ${response.status}).`
    : `The manager answered HTTP ${response.status}.`;
}
