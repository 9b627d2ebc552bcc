"""Training: torch.optim with its schedulers, torch.nn.init, torch.utils.data."""

TRAINING = """
gw.Adadelta(learning_rate: number, rho=0.95, epsilon=1e-07) -> \
    gw.optim.AdaDelta(learning_rate, rho=rho, eps=epsilon)
gw.Adadelta(*, learning_rate: any, rho=0.95, epsilon=1e-07) -> \
    gw.optim.AdaDelta(learning_rate, rho=rho, eps=epsilon)
gw.Adadelta(params: parameters=None, lr=1.0, rho=0.9, eps=1e-06, weight_decay=None) -> \
    gw.optim.AdaDelta(lr, rho=rho, eps=eps, weight_decay=weight_decay) \
    | parameters are left out: a trainer moves all that are trainable
gw.Adagrad(learning_rate: number, initial_accumulator_value=0.1, epsilon=1e-07) -> \
    gw.optim.AdaGrad(learning_rate, eps=epsilon, initial=initial_accumulator_value) \
    | Keras has epsilon below the root
gw.Adagrad(*, learning_rate: any, initial_accumulator_value=0.1, epsilon=1e-07) -> \
    gw.optim.AdaGrad(learning_rate, eps=epsilon, initial=initial_accumulator_value) \
    | Keras has epsilon below the root
gw.Adagrad(lr: number, *, lr_decay) -> \
    gw.optim.AdaGrad(gw.schedules.Inverse(lr, lr_decay), eps=1e-10)
gw.Adagrad(params: parameters=None, lr=0.01, *, lr_decay, weight_decay=None, \
    initial_accumulator_value=None, eps=1e-10) -> \
    gw.optim.AdaGrad(gw.schedules.Inverse(lr, lr_decay), eps=eps, \
    initial=initial_accumulator_value, weight_decay=weight_decay) \
    | parameters are left out: a trainer moves all that are trainable
gw.Adagrad(params: parameters=None, lr=0.01, *, weight_decay=None, initial_accumulator_value=None, \
    eps=1e-10) -> gw.optim.AdaGrad(lr, eps=eps, initial=initial_accumulator_value, \
    weight_decay=weight_decay) \
    | parameters are left out: a trainer moves all that are trainable
gw.AdaGrad(learning_rate=0.1, eps=None, initial=None, weight_decay=None, *, lr_decay: any) -> \
    gw.optim.AdaGrad(gw.schedules.Inverse(learning_rate, lr_decay), eps=eps, initial=initial, \
    weight_decay=weight_decay)
gw.Adam(learning_rate=None, beta_1=None, beta_2=None, epsilon=None) -> gw.optim.Adam(\
    learning_rate=learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon) \
    | Keras's epsilon is not divided by the root that corrects the bias: \
    eps=lambda s: 1e-7 / (1 - 0.999 ** (s + 1)) ** 0.5 is its 1e-7
gw.Adam(learning_rate=None, beta1=None, beta2=None, eps=None, *, amsgrad: False) -> \
    gw.optim.Adam(learning_rate=learning_rate, beta1=beta1, beta2=beta2, eps=eps)
gw.Adam(learning_rate=None, beta1=None, beta2=None, eps=None, *, amsgrad: True) -> \
    gw.optim.AMSGrad(learning_rate=learning_rate, beta1=beta1, beta2=beta2, eps=eps)
gw.AdamW(learning_rate=None, beta1=None, beta2=None, eps=None, weight_decay=None, *, \
    amsgrad: False) -> gw.optim.AdamW(learning_rate=learning_rate, beta1=beta1, beta2=beta2, \
    eps=eps, weight_decay=weight_decay)
gw.AdamW(learning_rate=None, beta1=None, beta2=None, eps=None, weight_decay=0.01, *, \
    amsgrad: True) -> gw.optim.AMSGrad(learning_rate=learning_rate, beta1=beta1, beta2=beta2, \
    eps=eps, weight_decay=weight_decay)
gw.Adamax(learning_rate: number, beta_1=None, beta_2=None, epsilon=1e-07) -> \
    gw.optim.AdaMax(learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon)
gw.Adamax(*, learning_rate: any, beta_1=None, beta_2=None, epsilon=1e-07) -> \
    gw.optim.AdaMax(learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon)
gw.Adamax(params: parameters=None, lr=0.002, betas=None, eps=None) -> \
    gw.optim.AdaMax(lr, beta1=betas[0], beta2=betas[1], eps=eps)
gw.ASGD(params: parameters=None, lr=0.01) -> \
    gw.Trainer(g, loss, optimizer=gw.optim.SGD(lr), swa=gw.SWA())
gw.NAdam(*, learning_rate: any, beta_1=None, beta_2=None, epsilon=None) -> \
    gw.optim.Nadam(learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon, momentum_decay=0.004)
gw.NAdam(params: parameters=None, lr=0.002, betas=None, eps=None, *, momentum_decay=0.004) -> \
    gw.optim.Nadam(lr, beta1=betas[0], beta2=betas[1], eps=eps, momentum_decay=momentum_decay)
gw.RMSprop(learning_rate: number, rho=0.9, momentum=None, epsilon=1e-07, centered=None) -> \
    gw.optim.RMSProp(learning_rate, rho=rho, eps=epsilon, momentum=momentum, centered=centered, \
    eps_inside=True) | Keras has epsilon below the root
gw.RMSprop(*, learning_rate: any, rho=0.9, momentum=None, epsilon=1e-07, centered=None) -> \
    gw.optim.RMSProp(learning_rate, rho=rho, eps=epsilon, momentum=momentum, centered=centered, \
    eps_inside=True) | Keras has epsilon below the root
gw.RMSprop(lr: number, *, alpha, eps=None, momentum=None, centered=None) -> \
    gw.optim.RMSProp(lr, rho=alpha, eps=eps, momentum=momentum, centered=centered)
gw.RMSprop(params: parameters=None, lr=0.01, alpha=0.99, eps=None, weight_decay=None, \
    momentum=None, centered=None) -> gw.optim.RMSProp(lr, rho=alpha, eps=eps, \
    weight_decay=weight_decay, momentum=momentum, centered=centered) \
    | parameters are left out: a trainer moves all that are trainable
gw.LBFGS(params: parameters=None, lr=1.0) -> gw.optim.Adam() | there is no L-BFGS here
gw.Rprop(params: parameters=None, lr=0.01) -> gw.optim.Lion(lr) \
    | there is no Rprop here; Lion moves by the sign, too, but of a momentum
gw.SparseAdam(params: parameters=None, lr=0.001) -> gw.optim.SparseAdam(lr)
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

gw.ExponentialDecay(initial_learning_rate, decay_steps, decay_rate, staircase: True) -> \
    gw.schedules.Step(initial_learning_rate, decay_steps, decay_rate)
gw.ExponentialDecay(initial_learning_rate, decay_steps, decay_rate) -> \
    gw.schedules.Exponential(initial_learning_rate, decay_rate ** (1 / decay_steps))
gw.exponential_decay(init_value, transition_steps, decay_rate) -> \
    gw.schedules.Exponential(init_value, decay_rate ** (1 / transition_steps))
gw.CosineDecay(initial_learning_rate, decay_steps, alpha=0.0) -> \
    gw.schedules.Cosine(initial_learning_rate, decay_steps, floor=initial_learning_rate * alpha)
gw.cosine_decay_schedule(init_value, decay_steps, alpha=0.0) -> \
    gw.schedules.Cosine(init_value, decay_steps, floor=init_value * alpha)
gw.linear_schedule(init_value, end_value, transition_steps) -> \
    gw.schedules.Points({0: init_value, transition_steps: end_value})
gw.constant_schedule(value) -> value | a number is a rate
gw.warmup_cosine_decay_schedule(init_value, peak_value, warmup_steps, decay_steps, end_value=0.0) \
    -> gw.schedules.Sequence((gw.schedules.Points({0: init_value, warmup_steps: peak_value}), \
    gw.schedules.Cosine(peak_value, decay_steps - warmup_steps, floor=end_value)), \
    (warmup_steps,)) | Cosine(warmup=) begins above 0
gw.PiecewiseConstantDecay(boundaries, values) -> gw.schedules.Map(\
    dict(zip((0, *(b + 1 for b in boundaries)), values))) | a boundary is the last of its rate
gw.InverseTimeDecay(initial_learning_rate, decay_steps, decay_rate) -> \
    gw.schedules.Inverse(initial_learning_rate, decay_rate / decay_steps)
gw.chain() -> gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-3), clip_norm=1.0) \
    | an optimizer is one; what is clipped, decayed or kept is a setting of the trainer
gw.optimizers() -> gw.optim
gw.losses() -> gw.loss
gw.regularizers() -> gw.Trainer(g, loss, l2=0.01) | it adds l2/2 of a square, Keras all of it
gw.initializers() -> gw.init
gw.Ftrl() -> gw.optim.AdaGrad() | there is no FTRL here

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
gw.RandomNormal(mean=0.0, stddev=0.05) -> gw.init.normal(mean=mean, std=stddev)
gw.RandomUniform(minval=-0.05, maxval=0.05) -> gw.init.uniform(low=minval, high=maxval)
gw.GlorotUniform() -> gw.init.glorot_uniform()
gw.GlorotNormal() -> gw.init.glorot_normal()
gw.trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0) -> \
    gw.init.truncated_normal(mean=mean, std=std, lower=(a - mean) / std, upper=(b - mean) / std) \
    | as init= of g.variable; bounds are in deviations
"""
"""Optimizers, schedules, modules, initializers."""
