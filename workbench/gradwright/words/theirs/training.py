"""Training: torch.optim with its schedulers, torch.nn.init, torch.utils.data."""

TRAINING = """
gw.Adadelta(params=None, lr=1.0, rho=0.9, eps=1e-06) -> gw.optim.AdaDelta(lr, rho=rho, eps=eps)
gw.Adagrad(params=None, lr=0.01, *, initial_accumulator_value=None, eps=1e-10) -> \
    gw.optim.AdaGrad(lr, eps=eps, initial=initial_accumulator_value)
gw.Adamax(params=None, lr=0.002, betas=None, eps=None) -> \
    gw.optim.AdaMax(lr, beta1=betas[0], beta2=betas[1], eps=eps)
gw.ASGD(params=None, lr=0.01) -> gw.Trainer(g, loss, optimizer=gw.optim.SGD(lr), swa=gw.SWA())
gw.NAdam(params=None, lr=0.002, betas=None, eps=None, *, momentum_decay=0.004) -> \
    gw.optim.Nadam(lr, beta1=betas[0], beta2=betas[1], eps=eps, momentum_decay=momentum_decay)
gw.RMSprop(params=None, lr=0.01, alpha=0.99, eps=None, *, momentum=None, centered=None) -> \
    gw.optim.RMSProp(lr, rho=alpha, eps=eps, momentum=momentum, centered=centered)
gw.LBFGS(params=None, lr=1.0) -> gw.optim.Adam() | there is no L-BFGS here
gw.Rprop(params=None, lr=0.01) -> gw.optim.Lion(lr) \
    | there is no Rprop here; Lion moves by the sign, too, but of a momentum
gw.SparseAdam(params=None, lr=0.001) -> gw.optim.Adam(lr) | gradients are dense
gw.swa_utils() -> gw.Trainer(g, loss, swa=gw.SWA())
gw.AveragedModel(model) -> gw.Trainer(g, loss, ema=gw.EMA(0.999))
gw.GradScaler() -> gw.Trainer(g, loss, precision=gw.Precision("float16"))
gw.autocast(device_type=None, dtype="bfloat16") -> \
    gw.Trainer(g, loss, precision=gw.Precision(dtype))
gw.clip_grad_norm_(parameters, max_norm) -> gw.Trainer(g, loss, clip_norm=max_norm)
gw.clip_grad_value_(parameters, clip_value) -> gw.Trainer(g, loss, clip_value=clip_value)
gw.DataLoader(dataset, batch_size=1, shuffle=False) -> \
    trainer.fit(dataset, batch_size=batch_size, shuffle=shuffle)
gw.TensorDataset(*tensors) -> trainer.fit({"x": x, "t": t}) | arrays by the name of a placeholder
gw.export(model, args, f, **options) -> gw.onnx.save(g, f)
gw.export(model, f, **options) -> gw.onnx.save(model, f)

gw.StepLR(learning_rate: rate, step_size, gamma=0.1) -> \
    gw.schedules.Step(learning_rate, step_size, gamma) \
    | it counts steps, .per_epoch(n) epochs; an optimizer takes it as its rate
gw.MultiStepLR(learning_rate: rate, milestones, gamma=0.1) -> \
    gw.schedules.Map({0: learning_rate, **{m: learning_rate * gamma ** (i + 1) \
    for i, m in enumerate(milestones)}}) | it counts steps; an optimizer takes it as its rate
gw.ExponentialLR(learning_rate: rate, gamma) -> gw.schedules.Exponential(learning_rate, gamma) \
    | it counts steps, .per_epoch(n) epochs; an optimizer takes it as its rate
gw.CosineAnnealingLR(learning_rate: rate, T_max, eta_min=None) -> \
    gw.schedules.Cosine(learning_rate, T_max, floor=eta_min) \
    | it counts steps, .per_epoch(n) epochs; an optimizer takes it as its rate
gw.CosineAnnealingWarmRestarts(learning_rate: rate, T_0, T_mult=None, eta_min=None) -> \
    gw.schedules.CosineRestarts(learning_rate, T_0, growth=T_mult, floor=eta_min) \
    | it counts steps, .per_epoch(n) epochs; an optimizer takes it as its rate
gw.LinearLR(learning_rate: rate, start_factor=1/3, end_factor=1.0, total_iters=5) -> \
    learning_rate * gw.schedules.Points({0: start_factor, total_iters: end_factor}) \
    | it counts steps, .per_epoch(n) epochs; an optimizer takes it as its rate
gw.ConstantLR(learning_rate: rate, factor=1/3, total_iters=5) -> \
    learning_rate * gw.schedules.Map({0: factor, total_iters: 1.0})
gw.PolynomialLR(learning_rate: rate, total_iters=5, power=1.0) -> \
    gw.schedules.Polynomial(learning_rate, total_iters, power)
gw.OneCycleLR(optimizer, max_lr, total_steps, pct_start=None) -> \
    gw.schedules.OneCycle(max_lr, total_steps, warmup=pct_start) \
    | the momentum stays: OneCycle.momentum() is its schedule
gw.LambdaLR(learning_rate: rate, lr_lambda) -> lambda step: learning_rate * lr_lambda(step) \
    | an optimizer takes any function of the step as its rate
gw.ReduceLROnPlateau(optimizer, mode=None, factor=0.1, patience=10) -> \
    gw.train.ReduceLROnPlateau("val_loss", factor, patience=patience, mode=mode) \
    | it is a callback: Trainer(callbacks=[...])
gw.SequentialLR(optimizer, schedulers, milestones) -> \
    gw.schedules.Sequence(schedulers, milestones)

gw.functional() -> gw.nn | losses are in gw.loss, convolutions in gw.cnn
gw.lr_scheduler() -> gw.schedules | an optimizer takes one as its learning rate
gw.utils() -> gw.Trainer(g, loss, clip_norm=1.0)

gw.xavier_uniform_(tensor) -> gw.init.xavier_uniform() | as init= of g.variable
gw.xavier_normal_(tensor) -> gw.init.xavier_normal() | as init= of g.variable
gw.kaiming_uniform_(tensor) -> gw.init.he_uniform() | as init= of g.variable
gw.kaiming_normal_(tensor) -> gw.init.he_normal() | as init= of g.variable
gw.normal_(tensor, mean=None, std=None) -> gw.init.normal(mean=mean, std=std) \
    | as init= of g.variable
gw.uniform_(tensor, a=0.0, b=1.0) -> gw.init.uniform(low=a, high=b) | as init= of g.variable
gw.zeros_(tensor) -> gw.init.zeros() | as init= of g.variable
gw.ones_(tensor) -> gw.init.ones() | as init= of g.variable
gw.constant_(tensor, val) -> gw.init.constant(val) | as init= of g.variable
gw.orthogonal_(tensor) -> gw.init.orthogonal() | as init= of g.variable
gw.trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0) -> \
    gw.init.truncated_normal(mean=mean, std=std, lower=(a - mean) / std, upper=(b - mean) / std) \
    | as init= of g.variable; bounds are in deviations
"""
"""Optimizers, schedules, modules, initializers."""
