"""Methods of modules and optimizers: here those of graphs and trainers."""

OBJECTS = """
g.compile(optimizer=None, loss=None, metrics=None) -> \
    gw.Trainer(g, loss, optimizer=optimizer, metrics=metrics)
g.cuda() -> gw.Session(g, device) | a session has a device
g.eval() -> gw.Session(g) | run is in eval mode, Trainer.step and run(training=True) in train mode
g.forward(feeds) -> g.output(feeds, y) | y the tensor to fetch
g.load_state_dict(state_dict) -> g.values.restore(state_dict)
g.parameters() -> g.trainable
g.named_parameters() -> {v.name: v for v in g.trainable}
g.predict(x) -> gw.predict(g, y, x) | y the tensor to predict, x arrays by the name of a placeholder
g.add_weight(shape, initializer=None, name="w") -> g.variable(name, shape, init=initializer)
g.param(name, init_fn, shape) -> g.variable(name, shape, init=init_fn)
g.parameter(name, shape=None, init=None) -> g.variable(name, shape, init=init)
g.register_buffer(name, tensor) -> g.variable(name, init=tensor, trainable=False)
g.get_weights() -> [g.values[v.name] for v in g.trainable]
g.trainable_variables() -> g.trainable
g.training() -> gw.Session(g) \
    | run is in eval mode, Trainer.step and run(training=True) in train mode
g.state_dict() -> {v.name: g.values[v.name] for v in g.variables}
g.train() -> gw.Trainer(g, loss) \
    | run is in eval mode, Trainer.step and run(training=True) in train mode
g.zero_grad() -> gw.gradients(loss, g.trainable) | nothing adds up, so nothing is set to zero

opt.zero_grad() -> trainer.step(feeds) | it takes gradients and moves parameters; nothing adds up
opt.step() -> trainer.step(feeds) | it takes gradients and moves parameters
opt.state_dict() -> trainer.state_dict() | a trainer keeps the state of its optimizer
opt.param_groups() -> gw.Trainer(g, loss, groups=[gw.Group("*/bias", lr_multiplier=2.0)])
"""
"""Of graphs and of optimizers."""
