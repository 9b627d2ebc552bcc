// The mark of gradwright in tabs, launcher, file browser and sidebars: a node that feeds two.

import { LabIcon } from "@jupyterlab/ui-components";

const MARK =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><g class="jp-icon3 jp-icon-selectable" fill="#616161">' +
  '<path d="M7.3 5.5h1.4v2h4.5v3h-1.4V8.9H4.2v1.6H2.8v-3h4.5z"/><rect x="5.4" y="1.4" width="5.2" height="4.2" rx="1.2"/>' +
  '<rect x="1" y="10.4" width="5" height="4.2" rx="1.2"/><rect x="10" y="10.4" width="5" height="4.2" rx="1.2"/></g></svg>';

export const markIcon = new LabIcon({ name: "gradwright:mark", svgstr: MARK });
