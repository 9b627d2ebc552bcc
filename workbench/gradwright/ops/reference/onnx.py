"""Operators of ONNX that are several ops here, or another one, and those that are none.

What is one of our ops is declared by it (``OnnxRule``). ``gw.ops.find`` reads both, and a test
holds this table against what models with these operators are read into.
"""

from __future__ import annotations

from collections.abc import Mapping


def _named(domain: str, text: str) -> Mapping[str, tuple[str, ...]]:
    rows = (word.partition("=") for word in text.split())
    lead = f"{domain}." if domain else ""
    return {lead + theirs: tuple(ours.split("+")) for theirs, _, ours in rows}


PARTS: Mapping[str, tuple[str, ...]] = {
    **_named(
        "",
        """
        CastLike=cast CenterCropPad=strided_slice+pad MaxRoiPool=max+where
        RandomNormalLike=normal RandomUniformLike=uniform ReduceLogSum=sum+log
        Scatter=scatter_update SequenceMap=scan Upsample=resize
        """,
    ),
    **_named(
        "ai.onnx.ml",
        """
        ArrayFeatureExtractor=gather Binarizer=greater CategoryMapper=label_encoder
        FeatureVectorizer=concat Imputer=where LinearClassifier=matmul+argmax
        LinearRegressor=matmul Normalizer=div OneHotEncoder=label_encoder+one_hot
        SVMClassifier=matmul+argmax SVMRegressor=matmul Scaler=sub+mul
        TreeEnsemble=gather+where TreeEnsembleClassifier=gather+where
        TreeEnsembleRegressor=gather+where
        """,
    ),
    **_named(
        "com.microsoft",
        """
        Attention=linear+multi_head_attention BiasGelu=gelu DynamicQuantizeLSTM=lstm
        DynamicQuantizeMatMul=dynamic_quantize_linear+matmul_integer
        EmbedLayerNormalization=gather+layer_norm FastGelu=gelu FusedMatMul=matmul
        GroupQueryAttention=attention MatMulIntegerToFloat=matmul_integer MatMulNBits=matmul
        QAttention=matmul_integer QuickGelu=quick_gelu RotaryEmbedding=rope
        SimplifiedLayerNormalization=rms_norm SkipLayerNormalization=layer_norm
        SkipSimplifiedLayerNormalization=rms_norm
        """,
    ),
}
"""Operator, with its domain where that is not ONNX's own -> our ops, the first the most telling."""
NONE: Mapping[str, str] = {
    "Constant": "a constant of a graph is no op: g.constant(value)",
    "ImageDecoder": "decoding JPEG, PNG and the like needs an image library",
    "ai.onnx.preview.training.Gradient": "gradients are made when they are asked for: gw.gradients",
    "ai.onnx.ml.CastMap": "maps are no tensors, sequences or optionals",
    "ai.onnx.ml.DictVectorizer": "maps are no tensors, sequences or optionals",
    "ai.onnx.ml.ZipMap": "maps are no tensors, sequences or optionals",
}
"""Operator that is none of our ops -> why."""
