import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { IFlavorView, IWorkspace } from './records';

/** The workspace's state and what may be asked of it, for other extensions. */
export interface IDevCluster {
  /** Emitted after any change. */
  readonly changed: ISignal<IDevCluster, void>;
  /** Whether this lab is a workspace; null while that is not known. */
  readonly isWorkspace: boolean | null;
  readonly workspace: IWorkspace | null;
  readonly flavors: IFlavorView[];
  /** Why the manager cannot be reached; empty while it can. */
  readonly trouble: string;
  /** Whether no kernel can answer just now, and that is as it should be. */
  readonly away: boolean;
  /** Each resolves to whether the manager took the request; progress is told by `changed`. */
  switchTo(flavor: string): Promise<boolean>;
  deflate(): Promise<boolean>;
  inflate(flavor?: string | null): Promise<boolean>;
  cancel(): Promise<boolean>;
}

export const IDevCluster = new Token<IDevCluster>(
  '@devcluster/panel:IDevCluster',
  'The hardware of this workspace: what it is, and how to change it.'
);
