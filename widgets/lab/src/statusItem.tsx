/** The hardware in the status bar. */
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { chipIcon } from './icon';
import type { ClusterModel } from './model';
import { hardwareView } from './view';

/** Shows the flavor, and the state where it is not simply running; a click opens the panel. */
export class HardwareStatus extends ReactWidget {
  constructor(
    private readonly _model: ClusterModel,
    private readonly _open: () => void
  ) {
    super();
    this.addClass('jp-mod-highlighted');
    this.addClass('dc-Status');
  }

  protected render(): React.ReactElement {
    return (
      <UseSignal signal={this._model.changed}>
        {() => {
          const { workspace, flavors, trouble } = this._model;
          if (workspace === null) {
            return <></>;
          }
          const view = hardwareView(workspace, flavors);
          const badge = trouble ? 'manager unreachable' : view.tone === 'good' ? '' : view.badge;
          return (
            <button title="Dev Cluster: show the panel" onClick={this._open}>
              <chipIcon.react tag="span" width="14px" height="14px" />
              <span>{badge ? `${view.title} (${badge})` : view.title}</span>
            </button>
          );
        }}
      </UseSignal>
    );
  }
}
