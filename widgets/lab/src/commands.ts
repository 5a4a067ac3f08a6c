/** The commands of the palette. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import { chipIcon } from './icon';
import type { ClusterModel } from './model';
import { flavorRow, isOpen } from './view';

export namespace CommandIDs {
  export const switchTo = 'devcluster:switch';
  export const deflate = 'devcluster:deflate';
  export const inflate = 'devcluster:inflate';
  export const openPanel = 'devcluster:open-panel';
}

const CATEGORY = 'Dev Cluster';

export function addCommands(
  app: JupyterFrontEnd,
  model: ClusterModel,
  panelId: string,
  palette: ICommandPalette | null
): void {
  const { commands } = app;
  const rests = (state: string): boolean =>
    model.workspace?.state === state && !isOpen(model.workspace.move);
  const tell = async (asked: Promise<boolean>): Promise<void> => {
    if (!(await asked) && model.refusal) {
      Notification.error(model.refusal, { autoClose: 8000 });
    }
  };

  commands.addCommand(CommandIDs.openPanel, {
    label: 'Show the Dev Cluster Panel',
    caption: 'The hardware of this workspace',
    icon: chipIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => app.shell.activateById(panelId)
  });
  commands.addCommand(CommandIDs.switchTo, {
    label: args => (args.flavor ? `Switch Hardware to ${String(args.flavor)}` : 'Switch Hardware…'),
    caption: 'Move this workspace to another flavor; nothing is lost',
    describedBy: {
      args: {
        type: 'object',
        properties: { flavor: { type: 'string', description: 'The name of the flavor' } }
      }
    },
    isEnabled: () => rests('running'),
    execute: async args => {
      const flavor = args.flavor ? String(args.flavor) : await chooseFlavor(model);
      if (flavor) {
        app.shell.activateById(panelId);
        await tell(model.switchTo(flavor));
      }
    }
  });
  commands.addCommand(CommandIDs.deflate, {
    label: 'Deflate: Free the Hardware, Keep Everything',
    describedBy: { args: { type: 'object', properties: {} } },
    isEnabled: () => rests('running'),
    execute: () => tell(model.deflate())
  });
  commands.addCommand(CommandIDs.inflate, {
    label: 'Inflate: Take the Hardware Up Again',
    describedBy: { args: { type: 'object', properties: {} } },
    isEnabled: () => rests('deflated'),
    execute: () => tell(model.inflate())
  });
  for (const command of Object.values(CommandIDs)) {
    palette?.addItem({ command, category: CATEGORY });
  }
  model.changed.connect(() => commands.notifyCommandChanged());
}

async function chooseFlavor(model: ClusterModel): Promise<string | null> {
  const workspace = model.workspace;
  if (workspace === null) {
    return null;
  }
  const rows = model.flavors.map(view => flavorRow(view, workspace)).filter(row => row.enabled);
  const items = rows.map(row => `${row.title} (${row.free})`);
  const { value } = await InputDialog.getItem({
    title: 'Switch hardware to',
    items,
    okLabel: 'Switch'
  });
  return value === null ? null : (rows[items.indexOf(value)]?.name ?? null);
}
