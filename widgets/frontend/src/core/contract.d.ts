// Traits and messages, as Python has them: written by `python -m gradwright_widgets.contract`.

/** Traits of the widgets. */
export interface Traits {
  _kept: object[];
  _view: string;
  adapter_drift: object;
  adapter_files: object[];
  adapter_folder: string;
  adapter_place: string[];
  adapter_rows: object[];
  adapters: object[];
  batch_size: number;
  blamed: string[];
  breakpoints: object[];
  check_focus: object;
  check_hint: string;
  check_limit: number | null;
  check_overlay: boolean;
  check_state: "" | "running" | "done" | "stopped" | "failed";
  check_training: boolean;
  check_which: "trainable" | "selected";
  checkpoint_list: object;
  color_by: "category" | "dtype" | "size" | "bytes" | "parameters" | "flops" | "time" | "device" | "gradient" | "nan" | "zero" | "saturated" | "overlay";
  current: string;
  edits: object[];
  epochs: number;
  expanded: string[] | null;
  follow: boolean;
  frozen: string[];
  gradients: boolean;
  graph_spec: object;
  height: number;
  insides: object;
  inspector: boolean;
  keep: number;
  kernel_chip: "80" | "90" | "100";
  kernel_devices: object[];
  kernel_hint: string;
  kernel_launch: number;
  kernel_line: number;
  kernel_program: number;
  kernel_state: "" | "running" | "done" | "failed";
  kernel_step: number;
  log_scale: boolean;
  measured: object;
  message: string;
  metrics: string[];
  minimap: boolean;
  onnx_by: "onnxruntime" | "reference";
  onnx_hint: string;
  onnx_overlay: boolean;
  onnx_state: "" | "running" | "done" | "stopped" | "failed";
  outputs: string[];
  overlay: object;
  pairs: object;
  pairs_first: number;
  pairs_sort: "given" | "wrong" | "right" | "close";
  pairs_token: number[];
  parameters: object[];
  path_to: string;
  paths: "none" | "upstream" | "downstream" | "both";
  record: boolean;
  reruns: object;
  rollout: object;
  rollout_alarms: object[];
  rollout_first: number;
  rollout_live: boolean;
  rollout_measure: "advantage" | "ratio" | "kl" | "entropy" | "reward";
  rollout_page: "rollouts" | "step";
  rollout_rewards: object[];
  rollout_show: "all" | "mixed" | "alike" | "cut" | "failed";
  rollout_sort: "drawn" | "best" | "worst" | "spread" | "longest";
  rollout_token: number[];
  runs_chosen: string[];
  runs_filter: string;
  runs_log: boolean;
  runs_metric: string;
  runs_smoothing: number;
  runs_sort: string;
  runs_x_axis: "step" | "epoch" | "seconds";
  schedule_log: boolean;
  schedule_open: boolean;
  selected: string;
  smoothing: number;
  state: "idle" | "running" | "paused" | "stopped" | "finished" | "failed";
  stepping: object;
  stops: string[];
  tab: "train" | "rollouts" | "parameters" | "adapters" | "step" | "tensor" | "check" | "onnx" | "kernels" | "runs";
  table_closed: string[];
  table_columns: ("shape" | "dtype" | "count" | "mean" | "std" | "norm" | "gradient_norm" | "ratio")[];
  table_filter: string;
  table_groups: boolean;
  table_sort: "" | "trained" | "name" | "shape" | "dtype" | "count" | "mean" | "std" | "norm" | "gradient_norm" | "ratio" | "-trained" | "-name" | "-shape" | "-dtype" | "-count" | "-mean" | "-std" | "-norm" | "-gradient_norm" | "-ratio";
  tensor: string;
  tensor_cells: "largest" | "mean";
  tensor_colors: "auto" | "diverging" | "sequential" | "gray";
  tensor_cursor: number[];
  tensor_exact: boolean;
  tensor_follows: boolean;
  tensor_index: string;
  tensor_limits: number[];
  tensor_log: boolean;
  tensor_log_counts: boolean;
  tensor_numbers: boolean;
  tensor_part: "real" | "imag" | "abs" | "angle";
  tensor_plane: number[];
  tensor_range: "full" | "symmetric" | "robust" | "fixed";
  tensor_scope: "tensor" | "slice";
  text_chosen: number;
  text_head: number;
  text_layer: number;
  text_length: number;
  text_mode: "generate" | "score";
  text_model: object;
  text_page: "text" | "step";
  text_prompt: string;
  text_seed: number;
  text_state: "" | "running" | "done" | "stopped" | "failed";
  text_temperature: number;
  text_top_k: number;
  text_top_p: number;
  training: object;
  views: object[];
  watch_on: boolean;
  watch_pause: boolean;
  watch_state: "" | "idle" | "watching" | "alarm";
  watches: object[];
  why: object;
  x_axis: "step" | "epoch" | "seconds";
}

/** What a page asks for. */
export type Request =
  | "adapters.drift"
  | "adapters.load"
  | "adapters.look"
  | "adapters.merge"
  | "adapters.switch"
  | "adapters.sync"
  | "adapters.unmerge"
  | "adapters.weigh"
  | "check.curve"
  | "check.map"
  | "check.start"
  | "check.stop"
  | "check.sync"
  | "checkpoints.look"
  | "checkpoints.restore"
  | "checkpoints.save"
  | "colors.measure"
  | "compare.start"
  | "compare.stop"
  | "compare.sync"
  | "desk.hear"
  | "desk.output"
  | "desk.undo"
  | "graph.adapter"
  | "inspector.code"
  | "inspector.look"
  | "inspector.sync"
  | "kernels.cost"
  | "kernels.look"
  | "kernels.program"
  | "kernels.sync"
  | "kernels.users"
  | "kernels.value"
  | "pairs.look"
  | "pairs.measure"
  | "pairs.sync"
  | "parameters.freeze"
  | "parameters.sync"
  | "plot.sync"
  | "rate.set"
  | "rate.sync"
  | "rollouts.look"
  | "rollouts.pause"
  | "rollouts.resume"
  | "rollouts.step"
  | "rollouts.switch"
  | "rollouts.sync"
  | "rollouts.tensor"
  | "rollouts.weigh"
  | "runs.look"
  | "runs.sync"
  | "stepper.break"
  | "stepper.breakpoint"
  | "stepper.edit"
  | "stepper.look"
  | "stepper.move"
  | "stepper.rows"
  | "stepper.stop"
  | "stepper.sync"
  | "stepper.watch"
  | "tensor.index"
  | "tensor.jump"
  | "tensor.look"
  | "tensor.sync"
  | "tensor.value"
  | "tensor.window"
  | "text.look"
  | "text.start"
  | "text.step"
  | "text.stop"
  | "text.sync"
  | "text.why"
  | "training.evaluate"
  | "training.pause"
  | "training.resume"
  | "training.start"
  | "training.step"
  | "training.stop"
  | "watch.sync"
  | "why.ask"
  | "why.clear";

/** What the kernel tells a page. */
export type Told =
  | "adapters.deltas"
  | "check.curve"
  | "check.map"
  | "check.rows"
  | "checkpoints.seen"
  | "compare.rows"
  | "done"
  | "heard"
  | "inspector.code"
  | "inspector.facts"
  | "inspector.values"
  | "kernels.cost"
  | "kernels.launch"
  | "kernels.module"
  | "kernels.program"
  | "kernels.steps"
  | "kernels.users"
  | "kernels.value"
  | "pairs.page"
  | "pairs.token"
  | "parameters.statistics"
  | "plot.points"
  | "rate.schedule"
  | "refused"
  | "rollouts.figures"
  | "rollouts.module"
  | "rollouts.page"
  | "rollouts.token"
  | "runs.curves"
  | "runs.seen"
  | "runs.table"
  | "stepper.level"
  | "stepper.recording"
  | "stepper.rows"
  | "tensor.fits"
  | "tensor.picture"
  | "tensor.problem"
  | "tensor.value"
  | "tensor.who"
  | "tensor.window"
  | "text.attention"
  | "text.tokens"
  | "text.why"
  | "watch.points";
