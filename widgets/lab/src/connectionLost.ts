/** What is shown instead of "Server unavailable" when it is known why the server is away. */
import { ConnectionLost, IConnectionLost, JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { ITranslator } from '@jupyterlab/translation';
import type { ClusterModel } from './model';

const HUB_RESTART = 'hub:restart';

/**
 * Make the lab's handler of a lost connection.
 *
 * While a move is under way or the workspace is deflated it tells so, quietly. Otherwise it
 * does what `@jupyterlab/hub-extension:connectionlost`, which it takes the place of, does.
 */
export function connectionLost(
  app: JupyterFrontEnd,
  paths: JupyterFrontEnd.IPaths,
  model: ClusterModel,
  onAway: () => void
): IConnectionLost {
  let shown = false;
  return async (manager, error, translator?: ITranslator) => {
    if (model.away) {
      onAway();
      return;
    }
    if (!paths.urls.hubPrefix || !app.commands.hasCommand(HUB_RESTART)) {
      return ConnectionLost(manager, error, translator);
    }
    if (shown) {
      return;
    }
    shown = true;
    const { button } = await showDialog({
      title: 'Server unavailable or unreachable',
      body: `Your server at ${paths.urls.base} is not running.\nWould you like to restart it?`,
      buttons: [Dialog.okButton({ label: 'Restart' }), Dialog.cancelButton({ label: 'Dismiss' })]
    });
    shown = false;
    if (button.accept) {
      await app.commands.execute(HUB_RESTART);
    }
  };
}

/** One notice at a time about a workspace whose kernels cannot answer just now. */
export class AwayNotice {
  constructor(
    private readonly _model: ClusterModel,
    private readonly _openPanel: () => void,
    private readonly _panelIsSeen: () => boolean
  ) {
    _model.changed.connect(this._onChanged, this);
  }

  /** Show the notice, unless it is shown. */
  show(): void {
    const deflated = this._model.workspace?.state === 'deflated';
    const message = deflated
      ? 'This workspace is deflated: its hardware is free for others, its kernels are kept.'
      : 'The workspace is changing its hardware. Your kernels go on in a moment.';
    if (message === this._message) {
      return;
    }
    this._dismiss();
    this._message = message;
    const actions = deflated
      ? [{ label: 'Inflate', callback: () => void this._model.inflate() }]
      : [{ label: 'Show', callback: this._openPanel }];
    this._id = Notification.emit(message, 'info', { autoClose: false, actions });
  }

  private _onChanged(): void {
    if (this._model.workspace?.state === 'deflated') {
      if (!this._panelIsSeen()) {
        this.show();
      }
    } else if (!this._model.away) {
      this._dismiss();
    }
  }

  private _dismiss(): void {
    if (this._id) {
      Notification.dismiss(this._id);
    }
    this._id = '';
    this._message = '';
  }

  private _id = '';
  private _message = '';
}
