// The mark of gradwright in tabs, launcher, file browser and sidebars: a node that feeds two.

import { LabIcon } from "@jupyterlab/ui-components";

const MARK =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><g class="jp-icon3" fill="none" stroke="#616161"' +
  ' stroke-width="1.4" stroke-linecap="round"><path d="M8 5.6v1.2c0 2-4.5 1.4-4.5 3.6M8 6.8c0 2 4.5 1.4 4.5 3.6"/></g>' +
  '<g class="jp-icon3" fill="#616161"><rect x="5.4" y="1.4" width="5.2" height="4.2" rx="1.2"/>' +
  '<rect x="1" y="10.4" width="5" height="4.2" rx="1.2"/><rect x="10" y="10.4" width="5" height="4.2" rx="1.2"/></g></svg>';

export const markIcon = new LabIcon({ name: "gradwright:mark", svgstr: MARK });
