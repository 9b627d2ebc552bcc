"""The gradient check: analytic gradients beside measured ones, and the op that is wrong."""
