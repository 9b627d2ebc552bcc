// Rollouts as a tab of the Workbench, which asks for them when there are any.

import type { Part } from "../core/lazy";
import { styleSheet } from "../core/style";
import { rolloutsPanel } from "../panels/rollouts/panel";

export default { panel: rolloutsPanel, styleSheet } as Part;
