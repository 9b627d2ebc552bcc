"""Estimators of scikit-learn as skl2onnx writes them: ``python -m tests.formats.estimators``.

Each is fitted, written as ONNX with the converter's defaults (so classifiers end in ZipMap), read
here and run beside ONNX Runtime; a line says how far the two are apart, or what went wrong.

Left out is what cannot be compared: ONNX Runtime lacks an operator or fails on it (the Gaussian
process classifier, neighbours within a radius), the converter fails with these versions
(histogram gradient boosting, random trees' embedding). ``Normalizer("max")`` divides by the largest
magnitude in scikit-learn, in ONNX's evaluator and here, by the largest value in ONNX Runtime.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradwright as gw

DRAW = np.random.default_rng(5)
X = DRAW.standard_normal((60, 4)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)
THREE = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])
REAL = (X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * X[:, 1] ** 2).astype(np.float32)
SEVERAL = np.stack([REAL, X[:, 3] - REAL], 1)
POSITIVE = np.abs(REAL) + 0.5
WHOLE = DRAW.integers(0, 3, (60, 3)).astype(np.int64)
HOLES = np.where(DRAW.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
WORDS = np.array(["red", "green", "blue"])[WHOLE]
TEXTS = np.array(
    ["the cat sat on the mat", "a dog ran", "the dog and the cat", "mat on mat", "ran, ran away!"]
    * 12
)

Row = tuple[str, Callable[[], Any], Any, Any]


def rows() -> Iterator[Row]:
    """Yield name, what makes the estimator, what it is fitted to, and what it is to tell."""
    yield from regressors()
    yield from classifiers()
    yield from ensembles()
    yield from transformers()
    yield from outliers_and_clusters()
    yield from texts_and_categories()


def regressors() -> Iterator[Row]:
    from sklearn import (
        cross_decomposition,
        gaussian_process,
        linear_model,
        neighbors,
        neural_network,
        svm,
    )

    linear = linear_model
    for make in (
        *(linear.LinearRegression, linear.Ridge, linear.Lasso, linear.ElasticNet, linear.Lars),
        *(linear.BayesianRidge, linear.ARDRegression, linear.HuberRegressor),
        *(linear.TheilSenRegressor, linear.OrthogonalMatchingPursuit),
    ):
        yield make.__name__, make, X, REAL
    yield "LinearRegression of two", linear.LinearRegression, X, SEVERAL
    yield "SGDRegressor", lambda: linear.SGDRegressor(random_state=0), X, REAL
    yield "RANSACRegressor", lambda: linear.RANSACRegressor(random_state=0), X, REAL
    for make in (linear.PoissonRegressor, linear.GammaRegressor, linear.TweedieRegressor):
        yield make.__name__, make, X, POSITIVE
    yield "LinearSVR", lambda: svm.LinearSVR(random_state=0), X, REAL
    for kernel in ("linear", "rbf", "poly", "sigmoid"):
        yield f"SVR {kernel}", lambda k=kernel: svm.SVR(kernel=k), X, REAL
    yield "NuSVR", svm.NuSVR, X, REAL
    yield "KNeighborsRegressor", neighbors.KNeighborsRegressor, X, REAL
    yield (
        "KNeighborsRegressor by distance",
        lambda: neighbors.KNeighborsRegressor(weights="distance"),
        X,
        REAL,
    )
    yield "PLSRegression", cross_decomposition.PLSRegression, X, SEVERAL
    yield (
        "MLPRegressor",
        lambda: neural_network.MLPRegressor(hidden_layer_sizes=(8,), random_state=0),
        X,
        REAL,
    )
    kernel = gaussian_process.kernels.RBF() + gaussian_process.kernels.WhiteKernel()
    yield (
        "GaussianProcessRegressor",
        lambda: gaussian_process.GaussianProcessRegressor(kernel),
        X,
        REAL,
    )


def classifiers() -> Iterator[Row]:
    from sklearn import (
        discriminant_analysis,
        linear_model,
        multiclass,
        multioutput,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
    )

    linear = linear_model
    yield "LogisticRegression of two", linear.LogisticRegression, X, TWO
    yield "LogisticRegression", linear.LogisticRegression, X, THREE
    yield (
        "LogisticRegression with names",
        linear.LogisticRegression,
        X,
        np.array(["a", "b", "c"])[THREE],
    )
    for make in (linear.RidgeClassifier, discriminant_analysis.LinearDiscriminantAnalysis):
        yield make.__name__, make, X, THREE
    yield (
        "QuadraticDiscriminantAnalysis",
        discriminant_analysis.QuadraticDiscriminantAnalysis,
        X,
        THREE,
    )
    yield "Perceptron", lambda: linear.Perceptron(random_state=0), X, THREE
    for loss in ("hinge", "log_loss", "modified_huber"):
        yield (
            f"SGDClassifier {loss}",
            lambda lo=loss: linear.SGDClassifier(lo, random_state=0),
            X,
            THREE,
        )
    yield "LinearSVC", lambda: svm.LinearSVC(random_state=0), X, THREE
    for kernel in ("linear", "rbf", "poly", "sigmoid"):
        yield f"SVC {kernel}", lambda k=kernel: svm.SVC(kernel=k), X, THREE
    for name, labels in (("two", TWO), ("three", THREE)):
        yield (
            f"SVC of {name} with probabilities",
            lambda: svm.SVC(probability=True, random_state=0),
            X,
            labels,
        )
    yield "NuSVC", lambda: svm.NuSVC(nu=0.3), X, TWO
    yield "GaussianNB", naive_bayes.GaussianNB, X, THREE
    for make in (naive_bayes.MultinomialNB, naive_bayes.ComplementNB):
        yield make.__name__, make, np.abs(X), THREE
    yield "BernoulliNB", naive_bayes.BernoulliNB, X, THREE
    yield "CategoricalNB", naive_bayes.CategoricalNB, WHOLE, THREE
    yield "KNeighborsClassifier", neighbors.KNeighborsClassifier, X, THREE
    yield "MLPClassifier", lambda: neural_network.MLPClassifier((8,), random_state=0), X, THREE
    simple = linear.LogisticRegression
    yield "OneVsRestClassifier", lambda: multiclass.OneVsRestClassifier(simple()), X, THREE
    yield "OneVsOneClassifier", lambda: multiclass.OneVsOneClassifier(simple()), X, THREE
    yield (
        "MultiOutputClassifier",
        lambda: multioutput.MultiOutputClassifier(simple()),
        X,
        np.stack([TWO, THREE > 0], 1).astype(np.int64),
    )
    yield (
        "MultiOutputRegressor",
        lambda: multioutput.MultiOutputRegressor(linear.Ridge()),
        X,
        SEVERAL,
    )


def ensembles() -> Iterator[Row]:
    from sklearn import calibration, ensemble, linear_model, model_selection, tree

    forests = {"n_estimators": 7, "random_state": 0}
    for kind, y in (("Regressor", REAL), ("Classifier", THREE)):
        for name in ("RandomForest", "ExtraTrees", "GradientBoosting", "AdaBoost", "Bagging"):
            yield name + kind, lambda n=name, k=kind: getattr(ensemble, n + k)(**forests), X, y
        for name in ("DecisionTree", "ExtraTree"):
            yield name + kind, lambda n=name, k=kind: getattr(tree, n + k)(random_state=0), X, y
        some = linear_model.Ridge if kind == "Regressor" else linear_model.LogisticRegression
        pair = [
            ("linear", some()),
            ("tree", getattr(tree, f"DecisionTree{kind}")(max_depth=3, random_state=0)),
        ]
        flat = {"Regressor": {}, "Classifier": {"flatten_transform": False}}
        yield (
            f"Voting{kind}",
            lambda k=kind, p=pair, f=flat[kind]: getattr(ensemble, f"Voting{k}")(p, **f),
            X,
            y,
        )
        yield f"Stacking{kind}", lambda k=kind, p=pair: getattr(ensemble, f"Stacking{k}")(p), X, y
    logistic = linear_model.LogisticRegression
    yield "CalibratedClassifierCV", lambda: calibration.CalibratedClassifierCV(logistic()), X, THREE
    yield (
        "GridSearchCV",
        lambda: model_selection.GridSearchCV(logistic(), {"C": [0.5, 1.0]}),
        X,
        THREE,
    )


def transformers() -> Iterator[Row]:
    from sklearn import (
        compose,
        decomposition,
        feature_selection,
        impute,
        linear_model,
        pipeline,
        random_projection,
    )
    from sklearn import preprocessing as pre

    for make in (
        *(pre.StandardScaler, pre.MinMaxScaler, pre.MaxAbsScaler, pre.RobustScaler),
        *(pre.Normalizer, pre.Binarizer, pre.PolynomialFeatures, pre.PowerTransformer),
        *(decomposition.PCA, decomposition.IncrementalPCA, feature_selection.VarianceThreshold),
    ):
        yield make.__name__, make, X, None
    yield "Normalizer l1", lambda: pre.Normalizer("l1"), X, None
    yield (
        "KBinsDiscretizer",
        lambda: pre.KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        X,
        None,
    )
    yield "KernelPCA", lambda: decomposition.KernelPCA(2, kernel="rbf"), X, None
    yield "TruncatedSVD", lambda: decomposition.TruncatedSVD(2, random_state=0), X, None
    yield (
        "GaussianRandomProjection",
        lambda: random_projection.GaussianRandomProjection(2, random_state=0),
        X,
        None,
    )
    yield "SelectKBest", lambda: feature_selection.SelectKBest(k=2), X, THREE
    yield (
        "RFE",
        lambda: feature_selection.RFE(linear_model.Ridge(), n_features_to_select=2),
        X,
        REAL,
    )
    yield (
        "SelectFromModel",
        lambda: feature_selection.SelectFromModel(linear_model.Lasso(0.1)),
        X,
        REAL,
    )
    yield "SimpleImputer", impute.SimpleImputer, HOLES, None
    yield "KNNImputer", impute.KNNImputer, HOLES, None
    parts = [("a", pre.StandardScaler(), [0, 1]), ("b", pre.MinMaxScaler(), [2, 3])]
    yield "ColumnTransformer", lambda: compose.ColumnTransformer(parts), X, None
    union = [("a", pre.StandardScaler()), ("b", decomposition.PCA(2))]
    yield "FeatureUnion", lambda: pipeline.FeatureUnion(union), X, None
    yield (
        "Pipeline",
        lambda: pipeline.make_pipeline(
            pre.StandardScaler(), decomposition.PCA(2), linear_model.LogisticRegression()
        ),
        X,
        THREE,
    )


def outliers_and_clusters() -> Iterator[Row]:
    from sklearn import cluster, ensemble, mixture, neighbors, svm

    yield "KMeans", lambda: cluster.KMeans(3, n_init=1, random_state=0), X, None
    yield "MiniBatchKMeans", lambda: cluster.MiniBatchKMeans(3, n_init=1, random_state=0), X, None
    for kind in ("full", "tied", "diag", "spherical"):
        yield (
            f"GaussianMixture {kind}",
            lambda k=kind: mixture.GaussianMixture(2, covariance_type=k, random_state=0),
            X,
            None,
        )
    yield (
        "BayesianGaussianMixture",
        lambda: mixture.BayesianGaussianMixture(n_components=2, random_state=0),
        X,
        None,
    )
    yield "OneClassSVM", svm.OneClassSVM, X, None
    yield (
        "IsolationForest",
        lambda: ensemble.IsolationForest(n_estimators=5, random_state=0),
        X,
        None,
    )
    yield "LocalOutlierFactor", lambda: neighbors.LocalOutlierFactor(novelty=True), X, None
    yield (
        "NeighborhoodComponentsAnalysis",
        lambda: neighbors.NeighborhoodComponentsAnalysis(2, random_state=0),
        X,
        THREE,
    )


def texts_and_categories() -> Iterator[Row]:
    from sklearn import linear_model, pipeline
    from sklearn import preprocessing as pre
    from sklearn.feature_extraction import text

    yield "OneHotEncoder of texts", pre.OneHotEncoder, WORDS, None
    yield "OneHotEncoder of numbers", pre.OneHotEncoder, WHOLE, None
    yield "OrdinalEncoder", pre.OrdinalEncoder, WORDS, None
    yield "LabelEncoder", pre.LabelEncoder, WORDS[:, 0], None
    yield "LabelBinarizer", pre.LabelBinarizer, WHOLE[:, 0], None
    yield "CountVectorizer", lambda: text.CountVectorizer(lowercase=False), TEXTS, None
    yield (
        "TfidfVectorizer",
        lambda: text.TfidfVectorizer(lowercase=False, ngram_range=(1, 2)),
        TEXTS,
        None,
    )
    yield (
        "texts to classes",
        lambda: pipeline.make_pipeline(
            text.CountVectorizer(lowercase=False), linear_model.LogisticRegression()
        ),
        TEXTS,
        np.arange(60) % 5,
    )


# -- one estimator ---------------------------------------------------------------------------------


def written(make: Callable[[], Any], x: Any, y: Any) -> bytes:
    """Return the model of a fitted estimator as the converter writes it."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make().fit(x) if y is None else make().fit(x, y)
        kind = {"f": FloatTensorType, "i": Int64TensorType}.get(x.dtype.kind, StringTensorType)
        rest = list(x.shape[1:]) or ([1] if kind is StringTensorType and x is TEXTS else [])
        model = convert_sklearn(
            fitted,
            initial_types=[("X", kind([None, *rest]))],
            target_opset={"": 21, "ai.onnx.ml": 3},
        )
    return model.SerializeToString()


def theirs(data: bytes, x: Any, name: str = "X") -> dict[str, Any]:
    """Return what ONNX Runtime computes, tables of classes as columns."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(data, options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, map(columns, session.run(names, {name: x})), strict=True))


def columns(value: Any) -> Any:
    """Return probabilities, which come as a dict for each row, as an array."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(row.values()) for row in value])
    if isinstance(value, list):
        return np.stack([np.asarray(columns(item)) for item in value])
    return np.asarray(value)


def difference(make: Callable[[], Any], x: Any, y: Any) -> float:
    """Return how far the outputs are apart at most, relative to their size."""
    data = written(make, x, y)
    x = x.reshape(-1, 1) if x is TEXTS else x
    wanted = theirs(data, x)
    graph = gw.onnx.load(data)
    found = dict(zip(wanted, gw.Session(graph).run(list(wanted), {"X": x}), strict=True))
    return max(apart(np.asarray(found[name]), want) for name, want in wanted.items())


def apart(got: Any, want: Any) -> float:
    if got.shape != want.shape:
        raise AssertionError(f"shape {got.shape}, not {want.shape}")
    if want.dtype.kind not in "fc":
        wrong = int((got.astype(object) != want.astype(object)).sum())
        if wrong:
            raise AssertionError(f"{wrong} of {want.size} values differ")
        return 0.0
    size = max(float(np.abs(want).max(initial=0.0)), 1e-30)
    return float(np.abs(got.astype(np.float64) - want).max(initial=0.0)) / size


MOST = 2e-5
"""What two orders of float32 sums make of distances and kernels of a few hundred terms."""


def main(parts: list[str]) -> None:
    failed, n = 0, 0
    for name, make, x, y in rows():
        if parts and not any(part in name for part in parts):
            continue
        n += 1
        try:
            off = difference(make, x, y)
            text = f"{off:.1e}" + ("  WRONG" if off > MOST else "")
            failed += off > MOST
        except Exception as error:  # of whatever kind: it is told
            failed += 1
            text = f"{type(error).__name__}: {str(error).strip()[:300]}"
        print(f"{name:40} {text}", flush=True)
    print(f"{n - failed} of {n} as ONNX Runtime has them")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
