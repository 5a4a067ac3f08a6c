import { LabIcon } from '@jupyterlab/ui-components';
import chip from '../style/chip.svg';

/** A chip with the two arrows of a switch. */
export const chipIcon = new LabIcon({ name: 'devcluster:chip', svgstr: chip });
