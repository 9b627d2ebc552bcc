// Kernels as a tab of the Workbench, where there is something to look into.

import type { Part } from "../core/lazy";
import { styleSheet } from "../core/style";
import { kernelsPanel } from "../panels/kernels/panel";

export default { panel: kernelsPanel, styleSheet } as Part;
