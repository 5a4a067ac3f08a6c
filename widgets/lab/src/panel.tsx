/** The Dev Cluster panel: what a person sees and presses in the side bar. */
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import React from 'react';
import { chipIcon } from './icon';
import type { ClusterModel } from './model';
import { MoveSection, PlanSection, QuestionSection } from './moves';
import type { IFlavorView, IWorkspace } from './records';
import { flavorRow, hardwareView, isOpen, printable } from './view';

/** The panel's widget; everything in it is drawn from the model. */
export class DevClusterPanel extends ReactWidget {
  static readonly ID = 'devcluster-panel';

  constructor(private readonly _model: ClusterModel) {
    super();
    this.id = DevClusterPanel.ID;
    this.addClass('dc-Panel');
    this.title.icon = chipIcon;
    this.title.caption = 'Dev Cluster: the hardware of this workspace';
  }

  protected render(): React.ReactElement {
    return (
      <UseSignal signal={this._model.changed}>{() => <Panel model={this._model} />}</UseSignal>
    );
  }
}

function Panel({ model }: { model: ClusterModel }): React.ReactElement {
  return (
    <div className="dc-Panel-content" role="region" aria-label="Dev Cluster">
      <header className="dc-Header">
        <chipIcon.react tag="span" width="18px" height="18px" />
        <h2>Dev Cluster</h2>
        {model.workspaceName && <span className="dc-Header-name">{printable(model.workspaceName)}</span>}
      </header>
      <Trouble model={model} />
      <Body model={model} />
    </div>
  );
}

function Body({ model }: { model: ClusterModel }): React.ReactElement | null {
  const workspace = model.workspace;
  if (model.isWorkspace === false) {
    return (
      <p className="dc-Empty">
        This server is not a workspace of a Dev Cluster, so its hardware cannot be changed.
      </p>
    );
  }
  if (workspace === null) {
    return model.trouble ? null : <p className="dc-Empty">Asking the manager…</p>;
  }
  return (
    <>
      <Hardware workspace={workspace} flavors={model.flavors} />
      <QuestionSection model={model} />
      <MoveSection model={model} workspace={workspace} />
      <Rest model={model} workspace={workspace} />
      <Flavors model={model} workspace={workspace} />
      <PlanSection model={model} workspace={workspace} />
    </>
  );
}

function Trouble({ model }: { model: ClusterModel }): React.ReactElement | null {
  return (
    <>
      {model.trouble && (
        <div className="dc-Notice dc-mod-bad" role="alert" data-testid="trouble">
          <p>{printable(model.trouble)}</p>
          <p className="dc-Muted">
            Your kernels are not touched by this. It is tried again by itself.
          </p>
          <div className="dc-Actions">
            <button className="dc-Button" onClick={() => model.retryNow()}>
              Try now
            </button>
          </div>
        </div>
      )}
      {model.refusal && (
        <div className="dc-Notice dc-mod-bad" role="alert" data-testid="refusal">
          <p>{printable(model.refusal)}</p>
          <div className="dc-Actions">
            <button className="dc-Button" onClick={() => model.dismissRefusal()}>
              Dismiss
            </button>
          </div>
        </div>
      )}
    </>
  );
}

interface IPart {
  model: ClusterModel;
  workspace: IWorkspace;
}

function Hardware(props: { workspace: IWorkspace; flavors: IFlavorView[] }): React.ReactElement {
  const view = hardwareView(props.workspace, props.flavors);
  const since = new Date(view.since * 1000);
  const today = since.toDateString() === new Date().toDateString();
  const time = since.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return (
    <section className="dc-Card dc-Hardware" aria-label="Current hardware">
      <div className="dc-Hardware-top">
        <span className="dc-Hardware-title" data-testid="hardware">
          {view.title}
        </span>
        <span className={`dc-Badge dc-mod-${view.tone}`} data-testid="state">
          {view.badge}
        </span>
      </div>
      <dl className="dc-Facts">
        <dt>GPU</dt>
        <dd>{view.gpus}</dd>
        <dt>Host</dt>
        <dd>{view.host}</dd>
        <dt>Since</dt>
        <dd title={since.toLocaleString()}>
          {today ? time : `${since.toLocaleDateString()} ${time}`}
        </dd>
      </dl>
      {view.reason && <p className="dc-Reason">{view.reason}</p>}
    </section>
  );
}

/** Deflate a running workspace, or bring a deflated one back. */
function Rest({ model, workspace }: IPart): React.ReactElement | null {
  const moving = isOpen(workspace.move);
  if (workspace.state === 'deflated') {
    return (
      <section className="dc-Card dc-Deflated" aria-label="Deflated">
        <p>
          <strong>This workspace is deflated.</strong> Its hardware is free for others; kernels,
          variables and files are kept and come back within seconds.
        </p>
        <button
          className="dc-Button dc-mod-primary dc-mod-wide"
          disabled={moving || model.asking !== ''}
          onClick={() => void model.inflate()}
          data-testid="inflate"
        >
          Inflate
        </button>
      </section>
    );
  }
  if (workspace.state !== 'running' || moving) {
    return null;
  }
  return (
    <section className="dc-Deflate">
      <button
        className="dc-Button dc-mod-wide"
        disabled={model.asking !== ''}
        onClick={() => void model.deflate()}
        title="Kernels, variables and files are kept and come back within seconds"
        data-testid="deflate"
      >
        Deflate
      </button>
      <p className="dc-Muted">Frees the hardware; all your work is kept.</p>
    </section>
  );
}

function Flavors({ model, workspace }: IPart): React.ReactElement {
  const deflated = workspace.state === 'deflated';
  return (
    <section aria-label="Flavors">
      <h3>{deflated ? 'Or inflate on other hardware' : 'Hardware to switch to'}</h3>
      {model.flavors.length === 0 && <p className="dc-Muted">No flavors are offered.</p>}
      <ul className="dc-Flavors">
        {model.flavors.map(view => {
          const row = flavorRow(view, workspace);
          const asked = [`switch:${row.name}`, `inflate:${row.name}`].includes(model.asking);
          const press = (): void => {
            void (row.action === 'Inflate' ? model.inflate(row.name) : model.switchTo(row.name));
          };
          return (
            <li
              key={row.name}
              className={row.current ? 'dc-Flavor dc-mod-current' : 'dc-Flavor'}
              data-flavor={row.name}
            >
              <div className="dc-Flavor-text">
                <span className="dc-Flavor-title">{row.title}</span>
                <span className="dc-Muted">{row.detail}</span>
                <span className={row.available ? 'dc-Free dc-mod-good' : 'dc-Free'}>
                  {row.free}
                </span>
              </div>
              {row.current ? (
                <span className="dc-Flavor-current">current</span>
              ) : (
                <button
                  className={row.available && !deflated ? 'dc-Button dc-mod-primary' : 'dc-Button'}
                  disabled={!row.enabled || model.asking !== ''}
                  title={row.hint}
                  onClick={press}
                >
                  {asked ? 'Asking…' : row.action}
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
