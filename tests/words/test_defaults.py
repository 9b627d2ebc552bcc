"""Defaults that differ from torch's are said in the first lines of the documentation."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")
F = torch.nn.functional
FIRST = 8
"""So many lines come first."""
OPTIMIZERS = {
    "AdaDelta": "Adadelta",
    "AdaGrad": "Adagrad",
    "AdaMax": "Adamax",
    "Adam": "Adam",
    "AdamW": "AdamW",
    "Muon": "Muon",
    "Nadam": "NAdam",
    "RAdam": "RAdam",
    "RMSProp": "RMSprop",
    "SGD": "SGD",
}
THEIRS = {"learning_rate": "lr", "rho": "alpha", "initial": "initial_accumulator_value"}
PAIRS = {"beta1": 0, "beta2": 1}


def first_lines(documented):
    return " ".join(inspect.getdoc(documented).splitlines()[:FIRST])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_settings_of_optimizers(name):
    ours, theirs = getattr(gw.optim, name), getattr(torch.optim, OPTIMIZERS[name])
    known = {k: p.default for k, p in inspect.signature(theirs).parameters.items()}
    said = first_lines(ours)
    for field in fields(ours):
        other = known.get(THEIRS.get(field.name, field.name), known.get(field.name))
        if field.name in PAIRS:
            other = known["betas"][PAIRS[field.name]]
        if other is None or other is inspect.Parameter.empty:
            continue
        if float(other) != (field.default if field.default is not None else np.nan):
            assert "of torch" in said and f"{field.name}={float(other):g}" in said, field.name


def test_the_comparison_of_optimizers_sees_what_is_not_said(monkeypatch):
    monkeypatch.setattr(gw.optim.AdaGrad, "__doc__", "Defaults of torch: learning_rate=0.01.")
    with pytest.raises(AssertionError, match=r"^eps"):
        test_settings_of_optimizers("AdaGrad")


RNG = np.random.default_rng(0)
X, Y, Q, P = (
    RNG.standard_normal((4, 6)).astype(np.float32),
    RNG.standard_normal((4, 6)).astype(np.float32),
    *RNG.dirichlet(np.ones(6), (2, 4)).astype(np.float32),
)
C, IGNORED = np.array([0, 2, 5, 1]), np.array([0, -100, 5, 1])
WEIGHTS = RNG.uniform(0.5, 2.0, 6).astype(np.float32)
IMAGE = RNG.standard_normal((2, 6, 4, 4)).astype(np.float32)
OF_IMAGE = RNG.integers(0, 6, (2, 4, 4))
STEPS = np.log(RNG.dirichlet(np.ones(6), (4, 2))).astype(np.float32)
TARGETS = np.array([[1, 2], [3, 0]])
LENGTHS = np.array([2, 1])

DEFAULTS = {
    # ours with the arguments of a call, the same in torch, what makes ours the same, what is said
    "std": (gw.std, (X,), lambda: _t(X).std(), {"ddof": 1}, "ddof=1"),
    "var": (gw.var, (X,), lambda: _t(X).var(), {"ddof": 1}, "ddof=1"),
    "median": (
        gw.median,
        (X,),
        lambda: _t(X).median(),
        lambda x: gw.quantile(x, 0.5, method="lower"),
        'quantile(x, 0.5, method="lower")',
    ),
    "meshgrid": (
        lambda a, b, **k: gw.meshgrid(a, b, **k)[0],
        (X[0], Y[0, :3]),
        lambda: torch.meshgrid(_t(X[0]), _t(Y[0, :3]), indexing="ij")[0],
        {"indexing": "ij"},
        'indexing="ij"',
    ),
    "rms_norm": (
        gw.nn.rms_norm,
        (1e-3 * X,),
        lambda: F.rms_norm(_t(1e-3 * X), (6,)),
        {"eps": 1.1920929e-7},
        "eps=1.2e-7",
    ),
    "embedding_bag": (
        gw.nn.embedding_bag,
        (C[None], X.T.copy()),
        lambda: F.embedding_bag(_t(C[None]), _t(X.T.copy())),
        {"mode": "mean"},
        'mode="mean"',
    ),
    "lp_normalize": (
        gw.nn.lp_normalize,
        (IMAGE,),
        lambda: F.normalize(_t(IMAGE)),
        {"axis": 1, "eps": 1e-12},
        "axis=1, eps=1e-12",
    ),
    "cosine_similarity": (
        gw.cosine_similarity,
        (X, Y),
        lambda: F.cosine_similarity(_t(X), _t(Y)),
        {"axis": 1, "eps": 1e-8},
        "axis=1, eps=1e-8",
    ),
    "resize": (
        lambda x, **k: gw.image.resize(x, sizes=(5, 7), **k),
        (IMAGE,),
        lambda: F.interpolate(_t(IMAGE), (5, 7)),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        'coordinate_transformation_mode="asymmetric"',
    ),
    "one_hot": (
        lambda c, **k: gw.one_hot(c, 6, **k),
        (C,),
        lambda: F.one_hot(_t(C), 6),
        {"dtype": "int64"},
        'dtype="int64"',
    ),
    "softmax_cross_entropy": (
        gw.loss.softmax_cross_entropy,
        (abs(IMAGE), IMAGE),
        lambda: F.cross_entropy(_t(IMAGE), _t(abs(IMAGE))),
        {"axis": 1},
        "axis=1",
    ),
    "sparse_softmax_cross_entropy": (
        gw.loss.sparse_softmax_cross_entropy,
        (C, X, None, WEIGHTS),
        lambda: F.cross_entropy(_t(X), _t(C), _t(WEIGHTS)),
        {"reduction": "mean_by_weight"},
        'reduction="mean_by_weight"',
    ),
    "sparse_softmax_cross_entropy of images": (
        gw.loss.sparse_softmax_cross_entropy,
        (OF_IMAGE, IMAGE),
        lambda: F.cross_entropy(_t(IMAGE), _t(OF_IMAGE)),
        {"axis": 1},
        "axis=1",
    ),
    "sparse_softmax_cross_entropy of padding": (
        gw.loss.sparse_softmax_cross_entropy,
        (IGNORED, X),
        lambda: F.cross_entropy(_t(X), _t(IGNORED)),
        {"ignore_index": -100},
        "ignore_index=-100",
    ),
    "nll": (
        gw.loss.nll,
        (IGNORED, np.log(P)),
        lambda: F.nll_loss(_t(np.log(P)), _t(IGNORED)),
        {"ignore_index": -100},
        "ignore_index=-100",
    ),
    "kl_divergence": (
        gw.loss.kl_divergence,
        (P, np.log(Q)),
        lambda: F.kl_div(_t(np.log(Q)), _t(P), reduction="batchmean"),
        lambda p, log_q: gw.loss.kl_divergence(p, gw.exp(log_q)),
        "batchmean",
    ),
    "ctc": (
        lambda *a: gw.loss.ctc(*a[:2], None, a[2]),
        (TARGETS + (TARGETS == 0), STEPS.swapaxes(0, 1), LENGTHS),
        lambda: F.ctc_loss(_t(STEPS), _t(TARGETS), _t(np.array([4, 4])), _t(LENGTHS)),
        lambda labels, x, n: gw.loss.ctc(labels, x, 1.0 / gw.cast(n, "float32"), n),
        "weights=1/label_lengths",
    ),
}


def _t(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def value(function, arrays, **options):
    g = gw.Graph()
    given = [None if a is None else g.constant(a) for a in arrays]
    y = function(*given, **options)
    return g.output({}, y)[y.name]


@pytest.mark.parametrize("case", DEFAULTS)
def test_defaults_of_functions(case):
    function, arrays, theirs, instead, text = DEFAULTS[case]
    wanted = theirs().numpy()
    same = value(instead, arrays) if callable(instead) else value(function, arrays, **instead)
    assert same.dtype == wanted.dtype
    np.testing.assert_allclose(same, wanted, rtol=3e-5, atol=1e-6)
    try:
        ours = value(function, arrays)
        differs = (
            ours.shape != wanted.shape
            or ours.dtype != wanted.dtype
            or not np.allclose(ours, wanted, rtol=1e-4)
        )
    except gw.errors.GradwrightError:
        differs = True
    assert differs, "then there is nothing to say"
    said = first_lines(gw.ops.find(case.split()[0]).function)
    assert "torch" in said and text in said


def test_where_averages_and_recurrent_layers_begin_is_said_first():
    assert "as torch's ``AveragedModel``" in first_lines(gw.EMA)
    assert "torch has ``linear_before_reset=True``" in first_lines(gw.rnn.gru)
    assert "torch's form" in first_lines(gw.optim.Nesterov)
    assert "torch adds no ε" in first_lines(gw.loss.log_loss)
    averaged = torch.optim.swa_utils.AveragedModel(
        model := torch.nn.Linear(1, 1, bias=False),
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5),
    )
    g = gw.Graph()
    w = g.variable("w", (), init=4.0)
    trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), ema=gw.EMA(0.5))
    for _ in range(3):
        trainer.step({})
        with torch.no_grad():
            model.weight.fill_(float(g.values["w"]))
        averaged.update_parameters(model)
    with trainer.averaged("ema"):
        assert g.values["w"] == pytest.approx(averaged.module.weight.item())
