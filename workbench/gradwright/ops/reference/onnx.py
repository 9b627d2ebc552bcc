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
        Affine=mul+add CastLike=cast CenterCropPad=strided_slice+pad Crop=strided_slice
        DynamicSlice=strided_slice ImageScaler=mul+add MaxRoiPool=max+where
        ParametricSoftplus=softplus+mul RandomNormalLike=normal RandomUniformLike=uniform
        ReduceLogSum=sum+log Scale=mul ScaledTanh=tanh+mul Scatter=scatter_update SequenceMap=scan
        Upsample=resize
        SimplifiedLayerNormalization=rms_norm
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
        TreeEnsembleRegressor=gather+where ZipMap=identity
        """,
    ),
    **_named(
        "com.microsoft",
        """
        Attention=matmul+multi_head_attention BiasAdd=add BiasGelu=gelu BiasSplitGelu=gelu+mul
        CDist=sub+sum ConvTransposeWithDynamicPads=conv_transpose2d CropAndResize=crop_and_resize
        DequantizeLinear=dequantize_linear DynamicQuantizeLSTM=lstm
        DynamicQuantizeMatMul=dynamic_quantize_linear+matmul_integer
        EmbedLayerNormalization=gather+layer_norm ExpandDims=expand_dims FastGelu=gelu
        FusedConv=conv2d FusedGemm=linear FusedMatMul=matmul FusedMatMulActivation=matmul
        GatherBlockQuantized=gather+dequantize_linear GatherND=gather_nd Gelu=gelu
        GemmFastGelu=matmul+gelu GridSample=grid_sample GroupQueryAttention=attention+kv_scatter
        Inverse=inv MatMulBnb4=nf4_matmul MatMulInteger16=matmul_integer
        MatMulIntegerToFloat=matmul_integer MatMulNBits=quantized_matmul NhwcConv=conv2d
        NhwcFusedConv=conv2d NhwcMaxPool=max_pool2d Pad=pad
        QAttention=matmul_integer+multi_head_attention QEmbedLayerNormalization=gather+layer_norm
        QGemm=matmul_integer QLinearAdd=add+quantize_linear QLinearAveragePool=avg_pool2d
        QLinearConcat=concat+quantize_linear QLinearConv=qlinear_conv
        QLinearGlobalAveragePool=mean+quantize_linear QLinearLeakyRelu=leaky_relu+quantize_linear
        QLinearMul=mul+quantize_linear QLinearReduceMean=mean+quantize_linear
        QLinearSigmoid=sigmoid+quantize_linear QLinearSoftmax=softmax+quantize_linear
        QLinearWhere=where+quantize_linear QuantizeLinear=quantize_linear QuickGelu=swish
        Range=arange RelativePositionBias=relative_position_bias RotaryEmbedding=rope
        SkipLayerNormalization=layer_norm SkipSimplifiedLayerNormalization=rms_norm
        Tokenizer=tokenize TransposeMatMul=matmul Trilu=triu
        """,
    ),
}
"""Operator, with its domain where that is not ONNX's own -> our ops, the first the most telling."""
NONE: Mapping[str, str] = {
    "Constant": "a constant of a graph is no op: g.constant(value)",
    "ai.onnx.preview.training.Gradient": "gradients are made when they are asked for: gw.gradients",
    "ai.onnx.ml.CastMap": "maps are no tensors, sequences or optionals",
    "ai.onnx.ml.DictVectorizer": "maps are no tensors, sequences or optionals",
}
"""Operator that is none of our ops -> why."""
