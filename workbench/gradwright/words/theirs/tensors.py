"""Methods and attributes of torch's tensors."""

TENSORS = """
x.add_(other) -> x + other | tensors are never written into; g.update(v, value) sets a variable
x.addcdiv(tensor1, tensor2, *, value=1.0) -> x + value * tensor1 / tensor2
x.addcmul(tensor1, tensor2, *, value=1.0) -> x + value * tensor1 * tensor2
x.addmm(a, b) -> x + a @ b
x.addmv(mat, vec) -> x + mat @ vec
x.addr(vec1, vec2) -> x + gw.outer(vec1, vec2)
x.allclose(other) -> gw.all(gw.is_close(x, other))
x.amax(dim=None, keepdim=None) -> x.max(axis=dim, keepdims=keepdim)
x.amin(dim=None, keepdim=None) -> x.min(axis=dim, keepdims=keepdim)
x.aminmax() -> gw.min_max(x)
x.at() -> gw.scatter_nd_update(x, indices, updates) \
    | tensors are never written into; gw.scatter_nd_add adds
x.backward() -> gw.gradients(x, g.trainable) | gradients are tensors, too
x.baddbmm(batch1, batch2) -> x + batch1 @ batch2
x.bernoulli() -> gw.cast(gw.random.uniform_like(x) < x, x.dtype)
x.bfloat16() -> x.astype("bfloat16")
x.bmm(other) -> x @ other
x.bool() -> x.astype("bool")
x.char() -> x.astype("int8")
x.chunk(chunks, dim=None) -> gw.split(x, chunks, axis=dim)
x.clamp(min=None, max=None) -> x.clip(min=min, max=max)
x.clamp_max(max) -> x.clip(max=max)
x.clamp_min(min) -> x.clip(min=min)
x.clone() -> gw.identity(x) | nothing changes x, so that x itself does, too
x.contiguous() -> x | strides are the engine's matter
x.copy_(src) -> src | tensors are never written into; g.update(v, value) sets a variable
x.cpu() -> x | a session has a device, a tensor has none: gw.Session(g, device)
x.cuda() -> x | a session has a device, a tensor has none: gw.Session(g, device)
x.data() -> x.eval(feeds) | it has no value yet
x.detach() -> gw.stop_gradient(x)
x.device() -> gw.Session(g).device | a session has a device, a tensor has none
x.diagonal(offset=None) -> gw.diag_part(x, k=offset)
x.dim() -> x.rank
x.dist(other) -> gw.norm(x - other)
x.div_(other) -> x / other | tensors are never written into; g.update(v, value) sets a variable
x.double() -> x.astype("float64")
x.eq(other) -> x == other
x.equal(other) -> gw.all(x == other) | gw.equal compares element by element
x.expand(*sizes) -> x.broadcast_to(sizes) | x.shape[i] in the place of -1
x.expand_as(other) -> gw.broadcast_like(x, other)
x.fill_(value) -> gw.full_like(x, value) | tensors are never written into
x.float() -> x.astype("float32")
x.fmax(other) -> gw.maximum(x, other)
x.fmin(other) -> gw.minimum(x, other)
x.gather(dim, index) -> gw.take_along_axis(x, index, axis=dim) | gw.gather takes whole slices
x.ge(other) -> x >= other
x.grad() -> gw.gradients(loss, [x])[0] | gradients are asked for; nothing adds up
x.gt(other) -> x > other
x.half() -> x.astype("float16")
x.index_add(dim, index, source) -> gw.index_add(x, index, source, axis=dim)
x.index_copy(dim: 0, index, source) -> \
    gw.scatter_nd_update(x, gw.expand_dims(index, -1), source)
x.index_copy(dim, index, source) -> gw.swapaxes(gw.scatter_nd_update(gw.swapaxes(x, 0, dim), \
    gw.expand_dims(index, -1), gw.swapaxes(source, 0, dim)), 0, dim)
x.index_fill(dim: 0, index, value) -> gw.scatter_nd_update(x, gw.expand_dims(index, -1), \
    gw.full_like(gw.gather(x, index), value))
x.index_put_(indices, values) -> gw.scatter_nd_update(x, gw.stack(*indices, axis=-1), values) \
    | tensors are never written into
x.index_select(dim, index) -> gw.gather(x, index, axis=dim)
x.indices() -> gw.argmax(x) | max and sort give values alone; argmax, argsort and top_k say where
x.int() -> x.astype("int32")
x.inverse() -> gw.inv(x)
x.is_cuda() -> False | a session has a device, a tensor has none: gw.Session(g, device)
x.item() -> x.eval(feeds).item() | it has no value yet; fetch it with Session.run
x.kthvalue(k) -> x.sort(axis=-1)[..., k - 1] | values alone
x.le(other) -> x <= other
x.long() -> x.astype("int64")
x.lt(other) -> x < other
x.masked_fill(mask, value) -> gw.where(mask, value, x)
x.masked_select(mask) -> gw.boolean_mask(x, mask)
x.mm(other) -> x @ other
x.mul_(other) -> x * other | tensors are never written into; g.update(v, value) sets a variable
x.multinomial(num_samples, replacement=False) -> \
    gw.random.categorical(gw.log(x), num_samples, replacement=replacement)
x.mv(other) -> x @ other
x.narrow(dim: 0, start, length) -> x[start:start + length]
x.narrow(dim: 1, start, length) -> x[:, start:start + length]
x.narrow(dim, start, length) -> gw.gather(x, gw.arange(start, start + length), axis=dim)
x.ndimension() -> x.rank
x.ne(other) -> x != other
x.new_empty(*size) -> gw.full(size, 0.0, dtype=x.dtype) | inside `with g:`
x.new_full(size, fill_value) -> gw.full(size, fill_value, dtype=x.dtype) | inside `with g:`
x.new_ones(*size) -> gw.full(size, 1.0, dtype=x.dtype) | inside `with g:`
x.new_tensor(data) -> g.constant(data, dtype=x.dtype)
x.new_zeros(*size) -> gw.full(size, 0.0, dtype=x.dtype) | inside `with g:`
x.nonzero() -> gw.stack(*gw.nonzero(x), axis=-1) | gw.nonzero gives a tensor per axis, as numpy's
x.norm(p: int, dim=None) -> x.norm(axis=dim, ord=p) | the axis comes first
x.normal_(mean=None, std=None) -> gw.random.normal_like(x, mean=mean, std=std) \
    | tensors are never written into
x.numel() -> gw.size_of(x)
x.numpy() -> x.eval(feeds) | it has no value yet; fetch it with Session.run
x.permute(*dims) -> x.transpose(*dims)
x.put_(index, source) -> \
    gw.reshape_like(gw.scatter_nd_update(x.reshape(-1), gw.expand_dims(index, -1), source), x) \
    | tensors are never written into
x.repeat(*sizes) -> x.tile(sizes) | gw.repeat repeats each element
x.repeat_interleave(repeats, dim=None) -> gw.repeat(x, repeats, axis=dim)
x.requires_grad() -> x.trainable
x.requires_grad_(requires_grad=True) -> g.set_trainable(x, requires_grad)
x.reshape_as(other) -> gw.reshape_like(x, other)
x.scatter(dim, index, src) -> gw.scatter_update(x, index, src, axis=dim)
x.scatter_add(dim, index, src) -> gw.scatter_add(x, index, src, axis=dim)
x.select(dim, index) -> gw.gather(x, index, axis=dim)
x.short() -> x.astype("int16")
x.size() -> x.shape
x.size(dim) -> x.shape[dim] | as a number of a graph gw.size_at(x, axis)
x.split(split_size: int, dim=0) -> gw.split(x, x.shape[dim] // split_size, axis=dim) \
    | gw.split takes the number of parts, or their sizes
x.split(split_size, dim=0) -> gw.split(x, split_size, axis=dim)
x.sub_(other) -> x - other | tensors are never written into; g.update(v, value) sets a variable
x.swapdims(dim0, dim1) -> x.swapaxes(dim0, dim1)
x.t() -> x.T
x.take(index) -> gw.gather(x.reshape(-1), index)
x.take_along_dim(indices, dim) -> gw.take_along_axis(x, indices, axis=dim)
x.to(dtype) -> x.astype(dtype) | a session has a device, a tensor has none: gw.Session(g, device)
x.tolist() -> x.eval(feeds).tolist() | it has no value yet; fetch it with Session.run
x.topk(k, dim=None, largest=None) -> x.top_k(k, axis=dim, largest=largest)
x.transpose(dim0: int, dim1: int) -> x.swapaxes(dim0, dim1) | transpose orders all axes
x.type(dtype) -> x.astype(dtype)
x.type_as(other) -> x.astype(other.dtype)
x.unbind(dim=None) -> gw.unstack(x, axis=dim)
x.unflatten(dim: 0, sizes) -> x.reshape(*sizes, *x.shape[1:])
x.unflatten(dim: -1, sizes) -> x.reshape(*x.shape[:-1], *sizes)
x.unfold(dimension: -1, size, step) -> gw.stack([gw.gather(x, np.arange(i, i + size), axis=-1) \
    for i in range(0, x.shape[-1] - size + 1, step)], axis=-2)
x.uniform_(low=0.0, high=1.0) -> gw.random.uniform_like(x, low, high) \
    | tensors are never written into
x.unsqueeze(dim) -> x.expand_dims(dim)
x.value() -> x.eval(feeds) | it has no value yet; fetch it with Session.run
x.values() -> x | max and sort give values alone; argmax, argsort and top_k say where
x.view(*shape) -> x.reshape(*shape)
x.view_as(other) -> gw.reshape_like(x, other)
x.where(condition, other) -> gw.where(condition, x, other)
x.zero_() -> gw.zeros_like(x) | tensors are never written into; g.update(v, value) sets a variable

w.assign(value) -> g.update(w, value) | at each step; g.values[name] = value sets it at once
w.copy_(src) -> g.update(w, src) | at each step; g.values[name] = value sets it at once
w.data() -> g.values[NAME]
w.item() -> g.values[NAME].item()
w.numpy() -> g.values[NAME]
w.tolist() -> g.values[NAME].tolist()
w.value() -> g.values[NAME]
"""
"""Of any tensor, and of those whose value is stored."""
