/** Plug-ins of the Dev Cluster panel: what is put where in the lab. */
import {
  IConnectionLost,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CommsOverSubshells } from '@jupyterlab/services';
import { IStatusBar } from '@jupyterlab/statusbar';
import { addCommands, CommandIDs } from './commands';
import { AwayNotice, connectionLost } from './connectionLost';
import { ClusterModel } from './model';
import { DevClusterPanel } from './panel';
import { QuestionDialogs } from './questions';
import { HardwareStatus } from './statusItem';
import { IDevCluster } from './token';

export { IDevCluster };
export type * from './records';

const cluster: JupyterFrontEndPlugin<IDevCluster> = {
  id: '@devcluster/panel:cluster',
  description: 'Keeps the state of the workspace and the flavors fresh.',
  autoStart: true,
  provides: IDevCluster,
  activate: (app: JupyterFrontEnd) => new ClusterModel(app.serviceManager.serverSettings)
};

const panel: JupyterFrontEndPlugin<void> = {
  id: '@devcluster/panel:panel',
  description: 'The panel in the side bar, its commands, questions and status bar item.',
  autoStart: true,
  requires: [IDevCluster],
  optional: [ICommandPalette, ILayoutRestorer, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    devcluster: IDevCluster,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null
  ) => {
    const model = devcluster as ClusterModel;
    const widget = new DevClusterPanel(model);
    app.shell.add(widget, 'right', { rank: 50, type: 'Dev Cluster' });
    restorer?.add(widget, DevClusterPanel.ID);
    addCommands(app, model, DevClusterPanel.ID, palette);
    new QuestionDialogs(model);
    statusBar?.registerStatusItem('@devcluster/panel:status', {
      align: 'left',
      rank: 100,
      item: new HardwareStatus(model, () => void app.commands.execute(CommandIDs.openPanel))
    });
  }
};

const lost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: '@devcluster/panel:connection-lost',
  description: 'Tells quietly why the server is away while hardware is switched or deflated.',
  autoStart: true,
  requires: [IDevCluster, JupyterFrontEnd.IPaths],
  provides: IConnectionLost,
  activate: (app: JupyterFrontEnd, devcluster: IDevCluster, paths: JupyterFrontEnd.IPaths) => {
    const model = devcluster as ClusterModel;
    const notice = new AwayNotice(
      model,
      () => void app.commands.execute(CommandIDs.openPanel),
      () => [...app.shell.widgets('right')].some(w => w.id === DevClusterPanel.ID && w.isVisible)
    );
    return connectionLost(app, paths, model, () => notice.show());
  }
};

/**
 * The lab sends comm messages over subshells, named by ids that die with the kernel's
 * process; after a switch the new process would not know them and widgets would be dead.
 * `@jupyterlab/apputils-extension:subshell-settings`, which sets the same property from the
 * settings, is disabled in package.json; connections that are open already follow too.
 */
const subshells: JupyterFrontEndPlugin<void> = {
  id: '@devcluster/panel:comms-over-main-shell',
  description: 'Keeps comms off subshells, so that widgets outlive the process of their kernel.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.serviceManager.kernels.commsOverSubshells = CommsOverSubshells.Disabled;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [cluster, panel, lost, subshells];
export default plugins;
