"""Keywords and values of torch, Keras and numpy."""

KEYWORDS = """
*(dim, dims) -> axis=_
*(keepdim) -> keepdims=_
*(lr) -> learning_rate=_
*(betas) -> beta1=_[0], beta2=_[1]
*(beta_1, b1) -> beta1=_
*(beta_2, b2) -> beta2=_
*(epsilon) -> eps=_
*(correction) -> ddof=_
*(unbiased) -> ddof=int(_)
*(size) -> shape=_
*(strides) -> stride=_
*(dilation_rate) -> dilation=_
*(pool_size) -> kernel_size=_
*(num_classes) -> depth=_
*(start_dim) -> start_axis=_
*(end_dim) -> end_axis=_
*(weight) -> class_weights=_
*(sample_weight) -> weights=_
*(ignore_class) -> ignore_index=_
*(alpha) -> negative_slope=_
*(inplace, memory_format, device, requires_grad, non_blocking) -> | leave it out
*(train, is_training) -> training=_
variable(initializer, initial_value, value, data) -> init=_
variable(requires_grad) -> trainable=_
norm(p) -> ord=_
normal(loc) -> mean=_
normal(scale) -> std=_
uniform(a) -> low=_
uniform(b) -> high=_
sum, softmax(dtype) -> gw.cast(x, _)
log_loss(from_logits) -> gw.loss.sigmoid_cross_entropy(labels, logits)
RMSProp(alpha, decay) -> rho=_
AdaGrad(initial_accumulator_value) -> initial=_
RMSProp(epsilon) -> eps=_, eps_inside=True | Keras has it below the root
AdaGrad(epsilon) -> eps=_ | Keras has it below the root
Adam, AdamW, Nadam(epsilon) -> eps=_ | Keras's is not divided by the root that corrects the bias: \
    eps=lambda s: 1e-7 / (1 - 0.999 ** (s + 1)) ** 0.5 is its 1e-7
*(clipnorm) -> gw.Trainer(g, loss, optimizer=CALL, clip_tensor_norm=_)
*(global_clipnorm) -> gw.Trainer(g, loss, optimizer=CALL, clip_norm=_)
*(clipvalue) -> gw.Trainer(g, loss, optimizer=CALL, clip_value=_)
max(keepdim) -> keepdims=_ | it gives values alone, so no [0] behind it; argmax says where
min(keepdim) -> keepdims=_ | it gives values alone, so no [0] behind it; argmin says where
Adam(weight_decay) -> gw.Trainer(g, loss, optimizer=CALL, l2=_) \
    | torch's Adam adds it to the gradient, as an L2 penalty is; gw.optim.AdamW decays apart
Step(step_size) -> every=_
Step(gamma) -> factor=_
Exponential(gamma) -> factor=_
Cosine(T_max) -> steps=_
Cosine(eta_min) -> floor=_
OneCycle(max_lr) -> peak=_
OneCycle(total_steps) -> steps=_
OneCycle(pct_start) -> warmup=_
Group(lr, learning_rate) -> optimizer=gw.optim.Adam(_) | which has its own state; \
    lr_multiplier=0.1 scales the trainer's rate
Trainer(lr, learning_rate) -> optimizer=gw.optim.Adam(_)
Trainer(max_grad_norm, gradient_clip_val, global_clipnorm) -> clip_norm=_
Trainer(clipnorm) -> clip_tensor_norm=_ | Keras clips each tensor by its own norm
Trainer(lr_scheduler, scheduler) -> optimizer=gw.optim.Adam(_) | an optimizer takes it as its rate
Trainer(clipvalue) -> clip_value=_
Trainer(gradient_accumulation_steps, accumulate_grad_batches) -> accumulation=_
Trainer(fp16) -> precision=gw.Precision("float16")
Trainer(bf16) -> precision=gw.Precision("bfloat16")
Trainer(mixed_precision, amp, dtype) -> precision=gw.Precision(_)
Trainer(gradient_checkpointing, remat) -> checkpoint="sqrt"
Trainer(param_groups, parameter_groups) -> groups=_
Trainer(epochs) -> CALL.fit(data, epochs=_)
Trainer(batch_size) -> CALL.fit(data, batch_size=_)
Trainer(validation) -> CALL.fit(data, validation=_)
Trainer(shuffle) -> CALL.fit(data, shuffle=_)
"""
"""Keywords of ops, optimizers, classes of settings, or, ``*``, of anything. ``_`` is the value, and
``CALL`` the call without it."""

VALUES = """
reduction='mean' ->
approximate=True -> approximate='tanh'
approximate=False -> approximate='none'
reduction='batchmean' ->
mode='bilinear' -> mode='linear'
mode='bicubic' -> mode='cubic'
mode='replicate' -> mode='edge'
mode='circular' -> mode='wrap'
"""
"""Values of attributes; what is nothing here is left out, since it is the default."""
