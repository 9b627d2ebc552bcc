"""Functions and layers: torch, torch.nn.functional, torch.nn and keras.layers."""

FUNCTIONS = """
gw.absolute(input) -> gw.abs(input)
gw.acos(input) -> gw.arccos(input)
gw.acosh(input) -> gw.arccosh(input)
gw.adaptive_avg_pool2d(input, output_size) -> gw.cnn.adaptive_avg_pool2d(input, output_size)
gw.addcmul(input, tensor1, tensor2, *, value=1.0) -> input + value * tensor1 * tensor2
gw.addmm(input, mat1, mat2) -> input + mat1 @ mat2
gw.allclose(input, other, rtol=None, atol=None) -> \
    gw.all(gw.is_close(input, other, rtol=rtol, atol=atol))
gw.amax(input, dim=None, keepdim=None) -> gw.max(input, axis=dim, keepdims=keepdim)
gw.amin(input, dim=None, keepdim=None) -> gw.min(input, axis=dim, keepdims=keepdim)
gw.argwhere(input) -> gw.stack(*gw.nonzero(input), axis=-1)
gw.array(data, dtype=None) -> g.constant(data, dtype=dtype)
gw.as_tensor(data, dtype=None) -> g.constant(data, dtype=dtype)
gw.asarray(data, dtype=None) -> g.constant(data, dtype=dtype)
gw.asin(input) -> gw.arcsin(input)
gw.asinh(input) -> gw.arcsinh(input)
gw.atan(input) -> gw.arctan(input)
gw.atan2(input, other) -> gw.arctan2(input, other)
gw.atanh(input) -> gw.arctanh(input)
gw.autograd() -> gw.gradients(loss, g.trainable)
gw.baddbmm(input, batch1, batch2) -> input + batch1 @ batch2
gw.bernoulli(input) -> gw.cast(gw.random.uniform_like(input) < input, input.dtype)
gw.bfloat16() -> "bfloat16" | dtypes are names, or numpy's
gw.bmm(input, mat2) -> gw.matmul(input, mat2)
gw.bucketize(input, boundaries) -> gw.searchsorted(boundaries, input)
gw.cat(tensors, dim=None) -> gw.concat(tensors, axis=dim)
gw.cdist(x1, x2) -> gw.norm(gw.expand_dims(x1, -2) - gw.expand_dims(x2, -3), axis=-1)
gw.chunk(input, chunks, dim=None) -> gw.split(input, chunks, axis=dim)
gw.clamp(input, min=None, max=None) -> gw.clip(input, min=min, max=max)
gw.column_stack(tensors) -> gw.stack(tensors, axis=1) | of vectors; of matrices gw.concat
gw.concatenate(tensors, axis=None) -> gw.concat(tensors, axis=axis)
gw.concatenate(tensors, *, dim) -> gw.concat(tensors, axis=dim)
gw.Constant(value) -> g.constant(value)
gw.cosine_similarity(x1, x2, dim=1) -> gw.cosine_similarity(x1, x2, axis=dim)
gw.cuda() -> gw.Session(g, device) | a session has a device
gw.detach(input) -> gw.stop_gradient(input)
gw.device(name) -> gw.Session(g, name) | a session has a device, a tensor has none
gw.diagonal(input, offset=None) -> gw.diag_part(input, k=offset)
gw.dist(input, other) -> gw.norm(input - other)
gw.divide(input, other) -> gw.div(input, other)
gw.dstack(tensors) -> gw.concat(tensors, axis=2)
gw.empty(*size, dtype=None) -> gw.full(size, 0.0, dtype=dtype) | inside `with g:`
gw.empty_like(input) -> gw.zeros_like(input)
gw.eq(input, other) -> gw.equal(input, other)
gw.expand(input, *sizes) -> gw.broadcast_to(input, sizes)
gw.float16() -> "float16" | dtypes are names, or numpy's
gw.float32() -> "float32" | dtypes are names, or numpy's
gw.float64() -> "float64" | dtypes are names, or numpy's
gw.floor_divide(input, other) -> gw.floor_div(input, other)
gw.fmax(input, other) -> gw.maximum(input, other)
gw.fmin(input, other) -> gw.minimum(input, other)
gw.from_numpy(ndarray) -> g.constant(ndarray)
gw.gather(input, dim: int, index) -> gw.take_along_axis(input, index, axis=dim) \
    | gw.gather takes whole slices
gw.fori_loop(lower, upper, body_fun, init_val) -> \
    gw.scan(lambda held, i: (body_fun(i, held), ()), init_val, np.arange(lower, upper))[0]
gw.full(shape: int, fill_value) -> gw.full((shape,), fill_value)
gw.full(shape, fill_value: complex, dtype=None) -> \
    gw.broadcast_to(g.constant(fill_value, dtype=dtype), shape)
gw.full_like(input, fill_value: unknown) -> gw.zeros_like(input) + fill_value
gw.ge(input, other) -> gw.greater_equal(input, other)
gw.ger(input, vec2) -> gw.outer(input, vec2)
gw.grad(fun)(x) -> gw.gradients(fun(x), [x])[0] | differentiated is a tensor, not a function
gw.grad(outputs, inputs: tuple) -> gw.gradients(outputs, inputs) | gradients are tensors, too
gw.grad(outputs, inputs) -> gw.gradients(outputs, [inputs]) | gradients are tensors, too
gw.gt(input, other) -> gw.greater(input, other)
gw.half() -> "float16" | dtypes are names, or numpy's
gw.hstack(tensors) -> gw.concat(tensors, axis=1)
gw.index_add(input, dim: int, index, source) -> gw.index_add(input, index, source, axis=dim)
gw.index_copy(input, dim: 0, index, source) -> \
    gw.scatter_nd_update(input, gw.expand_dims(index, -1), source)
gw.index_copy(input, dim, index, source) -> gw.swapaxes(gw.scatter_nd_update(\
    gw.swapaxes(input, 0, dim), gw.expand_dims(index, -1), gw.swapaxes(source, 0, dim)), 0, dim)
gw.index_select(input, dim, index) -> gw.gather(input, index, axis=dim)
gw.inference_mode() -> gw.stop_gradient(x) | nothing is recorded: gradients are asked for
gw.Input(shape) -> g.placeholder("x", (None, *shape))
gw.int32() -> "int32" | dtypes are names, or numpy's
gw.int64() -> "int64" | dtypes are names, or numpy's
gw.inverse(input) -> gw.inv(input)
gw.is_tensor(obj) -> isinstance(obj, gw.Tensor)
gw.isfinite(input) -> gw.is_finite(input)
gw.isin(elements, test_elements) -> \
    gw.any(gw.expand_dims(elements, -1) == test_elements, axis=-1)
gw.isinf(input) -> gw.is_inf(input)
gw.isnan(input) -> gw.is_nan(input)
gw.jit(fun) -> gw.compile(fun)
gw.kthvalue(input, k) -> gw.sort(input, axis=-1)[..., k - 1] | values alone
gw.lax() -> gw | its functions are here by names of their own: gw.scan, gw.while_loop
gw.le(input, other) -> gw.less_equal(input, other)
gw.logspace(start, end, steps) -> 10.0 ** gw.linspace(start, end, steps) | inside `with g:`
gw.long() -> "int64" | dtypes are names, or numpy's
gw.lt(input, other) -> gw.less(input, other)
gw.map_fn(fn, first: any, second: any) -> gw.map_fn(lambda of: fn(*of), (first, second))
gw.map_fn(fn, first: any, second: any, third: any) -> \
    gw.map_fn(lambda of: fn(*of), (first, second, third))
gw.matmul(a, b, *, transpose_a: True, transpose_b: True) -> \
    gw.matmul(gw.swapaxes(a, -1, -2), gw.swapaxes(b, -1, -2))
gw.matmul(a, b, *, transpose_a: True) -> gw.matmul(gw.swapaxes(a, -1, -2), b)
gw.matmul(a, b, *, transpose_b: True) -> gw.matmul(a, gw.swapaxes(b, -1, -2))
gw.manual_seed(seed) -> gw.Session(g, seed=seed) | a Trainer takes it, too
gw.masked_fill(input, mask, value) -> gw.where(mask, value, input)
gw.masked_select(input, mask) -> gw.boolean_mask(input, mask)
gw.mm(input, mat2) -> gw.matmul(input, mat2)
gw.multinomial(input, num_samples, replacement=False) -> \
    gw.random.categorical(gw.log(input), num_samples, replacement=replacement) | inside `with g:`
gw.multiply(input, other) -> gw.mul(input, other)
gw.mv(input, vec) -> gw.matmul(input, vec)
gw.narrow(input, dim, start, length) -> \
    gw.gather(input, gw.arange(start, start + length), axis=dim) | or input[start:stop]
gw.ne(input, other) -> gw.not_equal(input, other)
gw.negative(input) -> gw.neg(input)
gw.no_grad() -> gw.stop_gradient(x) | nothing is recorded: gradients are asked for
gw.normal(mean, std, size) -> gw.random.normal(size, mean, std) | inside `with g:`
gw.numel(input) -> gw.size_of(input)
gw.ones(*size, dtype=None) -> gw.full(size, 1.0, dtype=dtype) | inside `with g:`
gw.Parameter(data) -> g.variable("w", init=data)
gw.permute(input, dims) -> gw.transpose(input, dims)
gw.placeholder(name, shape, dtype=None) -> g.placeholder(name, shape, dtype=dtype)
gw.rand(*size) -> gw.random.uniform(size) | inside `with g:`
gw.rand_like(input) -> gw.random.uniform_like(input)
gw.randint(low, high, size) -> gw.random.randint(size, low, high) | inside `with g:`
gw.randn(*size) -> gw.random.normal(size) | inside `with g:`
gw.randn_like(input) -> gw.random.normal_like(input)
gw.randperm(n) -> gw.random.permutation(n) | inside `with g:`
gw.ravel(input) -> gw.flatten(input)
gw.reduce_mean(input_tensor, axis=None, keepdims=None) -> \
    gw.mean(input_tensor, axis=axis, keepdims=keepdims)
gw.reduce_sum(input_tensor, axis=None, keepdims=None) -> \
    gw.sum(input_tensor, axis=axis, keepdims=keepdims)
gw.remainder(input, other) -> gw.mod(input, other)
gw.repeat_interleave(input, repeats, dim=None) -> gw.repeat(input, repeats, axis=dim)
gw.reshape(input, shape: int) -> gw.reshape(input, (shape,))
gw.row_stack(tensors) -> gw.concat(tensors, axis=0)
gw.scatter(input, dim, index, src) -> gw.scatter_update(input, index, src, axis=dim)
gw.scatter_add(input, dim: int, index, src) -> gw.scatter_add(input, index, src, axis=dim)
gw.scatter_update(input, indices: any, updates) -> \
    gw.scatter_nd_update(input, gw.expand_dims(indices, -1), updates) \
    | that writes rows, scatter_update single elements
gw.set_grad_enabled(mode) -> gw.stop_gradient(x) | nothing is recorded: gradients are asked for
gw.std_mean(input, dim=None) -> (gw.std(input, axis=dim, ddof=1), gw.mean(input, axis=dim))
gw.subtract(input, other) -> gw.sub(input, other)
gw.t(input) -> gw.transpose(input)
gw.take(a, indices, axis) -> gw.gather(a, indices, axis=axis)
gw.take(a, indices) -> gw.gather(gw.flatten(a), indices)
gw.take_along_dim(input, indices, dim) -> gw.take_along_axis(input, indices, axis=dim)
gw.tensor(data, dtype=None) -> g.constant(data, dtype=dtype)
gw.topk(input, k, dim=None) -> gw.top_k(input, k, axis=dim)
gw.transpose(input, dim0: int, dim1: int) -> gw.swapaxes(input, dim0, dim1) \
    | transpose orders all axes
gw.tril_indices(row, col, offset=0) -> np.tril_indices(row, offset, col)
gw.triu_indices(row, col, offset=0) -> np.triu_indices(row, offset, col)
gw.true_divide(input, other) -> gw.div(input, other)
gw.unbind(input, dim=None) -> gw.unstack(input, axis=dim)
gw.unsqueeze(input, dim) -> gw.expand_dims(input, dim)
gw.var_mean(input, dim=None) -> (gw.var(input, axis=dim, ddof=1), gw.mean(input, axis=dim))
gw.Variable(initial_value, name="w") -> g.variable(name, init=initial_value)
gw.variable(name, shape=None, init=None) -> g.variable(name, shape, init=init)
gw.variable(name, shape, dtype: any, init: any) -> g.variable(name, shape, init=init, dtype=dtype)
gw.view(input, shape) -> gw.reshape(input, shape)
gw.value_and_grad(fun)(x) -> (fun(x), gw.gradients(fun(x), [x])[0]) \
    | differentiated is a tensor, not a function
gw.vmap(func)(x) -> gw.map_fn(func, x)
gw.vmap(func)(*xs) -> gw.map_fn(lambda of: func(*of), xs)
gw.vstack(tensors) -> gw.concat(tensors, axis=0)
gw.where(condition: any) -> gw.nonzero(condition)
gw.zeros(*size, dtype=None) -> gw.full(size, 0.0, dtype=dtype) | inside `with g:`

gw.bilinear(input1, input2, weight) -> \
    gw.einsum("bi,oij,bj->bo", input1, weight, input2)
gw.conv1d(input, weight, bias=None, *, padding: "causal") -> \
    gw.cnn.conv1d(input, weight, bias, padding=[(weight.shape[-1] - 1, 0)])
gw.conv1d(input, weight, bias=None, *, padding: "causal", dilation) -> gw.cnn.conv1d(input, \
    weight, bias, padding=[((weight.shape[-1] - 1) * dilation, 0)], dilation=dilation)
gw.dropout2d(input, p=0.5) -> input * gw.nn.dropout(gw.ones_like(input[:, :, :1, :1]), p)
gw.embedding_bag(input, weight, *, offsets: any, mode: "sum") -> gw.unsorted_segment_sum(\
    gw.nn.embedding(input, weight), \
    gw.searchsorted(offsets, np.arange(input.shape[0]), side="right") - 1, offsets.shape[0])
gw.embedding_bag(input, weight, *, offsets: any) -> gw.unsorted_segment_mean(\
    gw.nn.embedding(input, weight), \
    gw.searchsorted(offsets, np.arange(input.shape[0]), side="right") - 1, offsets.shape[0])
gw.fold(input, output_size, kernel_size, stride=None, padding=None) -> \
    gw.cnn.col2im(input, output_size, kernel_size, stride=stride, padding=padding)
gw.glu(input, dim=None) -> gw.nn.glu(input, axis=dim)
gw.grid_sample(input, grid, mode=None, padding_mode=None, align_corners=None) -> \
    gw.image.grid_sample(input, grid, mode=mode, padding_mode=padding_mode, \
    align_corners=align_corners)
gw.group_norm(input, num_groups: int, weight=None, bias=None) -> \
    gw.nn.group_norm(input, weight, bias, num_groups=num_groups)
gw.gumbel_softmax(logits, tau=1.0) -> \
    gw.nn.softmax((logits + gw.random.gumbel(logits.shape)) / tau)
gw.hardtanh(input, min_val=-1.0, max_val=1.0) -> gw.nn.hard_tanh(input, min_val, max_val)
gw.interpolate(input, *, scale_factor: int) -> gw.cnn.upsampling2d(input, scale_factor)
gw.interpolate(input, size, *, mode: "bilinear") -> \
    gw.image.resize(input, sizes=size, mode="linear")
gw.interpolate(input, size) -> gw.image.resize(input, sizes=size, mode="nearest", \
    coordinate_transformation_mode="asymmetric", nearest_mode="floor")
gw.layer_norm(input, normalized_shape: tuple, weight=None, bias=None, eps=None) -> \
    gw.nn.layer_norm(input, weight, bias, eps=eps) | over the last axis, or axis= and all after it
gw.log_softmax(input, dim=None) -> gw.nn.log_softmax(input, axis=dim)
gw.normalize(input, p=2.0, dim=1) -> gw.nn.lp_normalize(input, p, dim)
gw.one_hot(input, num_classes) -> gw.one_hot(input, num_classes) | in float32
gw.pad(input, pad: pair) -> gw.pad(input, [(0, 0)] * (input.rank - 1) + [pad]) \
    | pairs are per axis, from the first on
gw.pad(input, pad: four) -> gw.pad(input, [(0, 0)] * (input.rank - 2) + [pad[2:], pad[:2]]) \
    | pairs are per axis, from the first on
gw.pairwise_distance(x1, x2, *, eps=1e-06, keepdim=None) -> \
    gw.norm(x1 - x2 + eps, axis=-1, keepdims=keepdim)
gw.pixel_shuffle(input, upscale_factor) -> \
    gw.cnn.depth_to_space(input, upscale_factor, mode="crd")
gw.pixel_unshuffle(input, downscale_factor) -> \
    gw.cnn.space_to_depth(input, downscale_factor, mode="crd")
gw.softmax(input, dim=None) -> gw.nn.softmax(input, axis=dim)
gw.softmin(input, dim=None) -> gw.nn.softmax(-input, axis=dim)
gw.threshold(input, threshold, value) -> gw.where(input > threshold, input, value)
gw.unfold(input, kernel_size, dilation=None, padding=None, stride=None) -> \
    gw.cnn.im2col(input, kernel_size, stride=stride, padding=padding, dilation=dilation)
gw.upsample(input, *, scale_factor: int) -> gw.cnn.upsampling2d(input, scale_factor)
gw.upsample(input, size) -> gw.image.resize(input, sizes=size, mode="nearest", \
    coordinate_transformation_mode="asymmetric", nearest_mode="floor")

gw.Linear(in_features, out_features)(x) -> gw.nn.linear(x, \
    g.variable("w", (in_features, out_features), init=gw.init.fan_in_uniform()), \
    g.variable("b", (out_features,))) | layers are functions; the parameters are yours
gw.Dense(units)(x) -> gw.nn.linear(x, g.variable("w", (x.shape[-1], units), \
    init=gw.init.xavier_uniform()), g.variable("b", (units,))) \
    | layers are functions; the parameters are yours
gw.Dense(units, activation: any)(x) -> getattr(gw.nn, activation)(gw.nn.linear(x, \
    g.variable("w", (x.shape[-1], units), init=gw.init.xavier_uniform()), \
    g.variable("b", (units,)))) | layers are functions; the parameters are yours
gw.Dense(units, activation=None, *, use_bias: False)(x) -> gw.nn.linear(x, \
    g.variable("w", (x.shape[-1], units), init=gw.init.xavier_uniform())) \
    | layers are functions, of which the activation is one more; the parameters are yours
gw.Conv2D(filters, kernel_size: int, strides=None, padding=None)(x) -> gw.cnn.conv2d(x, \
    g.variable("w", (filters, x.shape[-1], kernel_size, kernel_size), \
    init=gw.init.xavier_uniform()), g.variable("b", (filters,)), stride=strides, \
    padding=padding, data_format="NHWC") | the parameters are yours: kernels are [out, in, \
    height, width], or Keras's with weights_format="HWIO"
gw.Conv() -> gw.cnn.conv2d(x, weight, data_format="NHWC", weights_format="HWIO")
gw.Concatenate(axis=-1)(tensors) -> gw.concat(tensors, axis=axis)
gw.Conv2d(in_channels, out_channels, kernel_size, stride=None, padding=None)(x) -> \
    gw.cnn.conv2d(x, g.variable("w", (out_channels, in_channels, kernel_size, kernel_size), \
    init=gw.init.fan_in_uniform()), g.variable("b", (out_channels,)), stride=stride, \
    padding=padding) | layers are functions; the parameters are yours
gw.Conv2d(in_channels, out_channels, kernel_size, stride=None, padding=None, *, bias: False)(x) -> \
    gw.cnn.conv2d(x, g.variable("w", (out_channels, in_channels, kernel_size, kernel_size), \
    init=gw.init.fan_in_uniform()), stride=stride, padding=padding) \
    | layers are functions; the parameters are yours
gw.Linear(in_features, out_features, bias: False)(x) -> gw.nn.linear(x, \
    g.variable("w", (in_features, out_features), init=gw.init.fan_in_uniform())) \
    | layers are functions; the parameters are yours
gw.Embedding(num_embeddings, embedding_dim)(ids) -> gw.nn.embedding(ids, \
    g.variable("table", (num_embeddings, embedding_dim), init=gw.init.normal(std=1.0))) \
    | it begins as in torch; in Keras with gw.init.uniform(low=-0.05, high=0.05)
gw.Embedding(*, input_dim, output_dim)(ids) -> gw.nn.embedding(ids, \
    g.variable("table", (input_dim, output_dim), init=gw.init.uniform(low=-0.05, high=0.05)))
gw.LayerNorm(normalized_shape, eps=None)(x) -> gw.nn.layer_norm(x, \
    g.variable("gain", (x.shape[-1],), init=1.0), g.variable("bias", (x.shape[-1],)), eps=eps)
gw.LayerNorm(*, epsilon=1e-06)(x) -> gw.nn.layer_norm(x, \
    g.variable("gain", (x.shape[-1],), init=1.0), g.variable("bias", (x.shape[-1],)), eps=epsilon)
gw.LayerNormalization(axis=None, epsilon=0.001)(x) -> gw.nn.layer_norm(x, \
    g.variable("gain", (x.shape[-1],), init=1.0), g.variable("bias", (x.shape[-1],)), \
    axis=axis, eps=epsilon)
gw.BatchNorm2d(num_features, eps=None, momentum=None)(x) -> \
    gw.nn.batch_norm(x, momentum=momentum, eps=eps) | its four variables are made, or given
gw.BatchNorm1d(num_features, eps=None, momentum=None)(x) -> \
    gw.nn.batch_norm(x, momentum=momentum, eps=eps) | its four variables are made, or given
gw.BatchNormalization(axis=-1, *, epsilon=0.001)(x) -> \
    gw.nn.batch_norm(x, axis=axis, momentum=0.01, eps=epsilon) \
    | its four variables are made; their momentum is 1 - ours; our running variance is unbiased
gw.BatchNormalization(axis=-1, momentum=0.99, epsilon=0.001)(x) -> \
    gw.nn.batch_norm(x, axis=axis, momentum=1 - momentum, eps=epsilon) \
    | its four variables are made; their momentum is 1 - ours; our running variance is unbiased
gw.BatchNorm(use_running_average=None, axis=-1, momentum=0.99, epsilon=1e-05)(x) -> \
    gw.nn.batch_norm(x, axis=axis, momentum=1 - momentum, eps=epsilon) \
    | whether it trains follows the run; Flax's momentum is 1 - ours; our running variance is \
    unbiased
gw.batch_norm(x, *, axis=None, momentum=0.99, epsilon: any, training=None) -> \
    gw.nn.batch_norm(x, axis=axis, momentum=1 - momentum, eps=epsilon, training=training) \
    | Keras's momentum is 1 - ours; our running variance is unbiased
gw.Dropout(p=None)(x) -> gw.nn.dropout(x, p=p)
gw.Dropout2d(p=0.5)(x) -> x * gw.nn.dropout(gw.ones_like(x[:, :, :1, :1]), p)
gw.Upsample(*, scale_factor: int)(x) -> gw.cnn.upsampling2d(x, scale_factor)
gw.ZeroPad2d(padding: int)(x) -> gw.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
gw.ReflectionPad2d(padding: int)(x) -> \
    gw.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], mode="reflect")
gw.Identity()(x) -> x
gw.Dropout1d(p=None)(x) -> gw.nn.dropout(x, p=p)
gw.Flatten()(x) -> gw.flatten(x, 1)
gw.ReLU()(x) -> gw.nn.relu(x)
gw.GELU()(x) -> gw.nn.gelu(x)
gw.SiLU()(x) -> gw.nn.silu(x)
gw.Tanh()(x) -> gw.tanh(x)
gw.Sigmoid()(x) -> gw.nn.sigmoid(x)
gw.Softmax(dim=None)(x) -> gw.nn.softmax(x, axis=dim)
gw.LeakyReLU(negative_slope=None)(x) -> gw.nn.leaky_relu(x, negative_slope=negative_slope)
gw.MaxPool2d(kernel_size, stride=None, padding=None)(x) -> \
    gw.cnn.max_pool2d(x, kernel_size, stride=stride, padding=padding)
gw.AvgPool2d(kernel_size, stride=None, padding=None)(x) -> \
    gw.cnn.avg_pool2d(x, kernel_size, stride=stride, padding=padding)
gw.Conv2DTranspose()(x) -> gw.cnn.conv_transpose2d(x, weight)
gw.Model() -> gw.Graph() | a model is a graph, its layers are functions that build it
gw.Module() -> gw.Graph() | a model is a graph, its layers are functions that build it
gw.GlobalAveragePooling2D()(x) -> gw.cnn.global_avg_pool(x)
gw.GlobalMaxPooling2D()(x) -> gw.cnn.global_max_pool(x)
"""
"""Arrays; what networks are made of; layers."""
