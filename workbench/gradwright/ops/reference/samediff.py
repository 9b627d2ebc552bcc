"""The names that ND4J's SameDiff has for ops, and where each of them stands here.

SameDiff lists 453 names in 13 namespaces (deeplearning4j, 2026). A name that is ours in snake case
stands alone; ``eq=equal`` says what else it is called here. ``gw.ops.find`` reads this table, and a
test holds it against the ops that exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def _named(text: str) -> Mapping[str, str]:
    found = {}
    for word in text.split():
        theirs, _, ours = word.partition("=")
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", theirs).lower()
        found[theirs] = ours or snake
    return found


SAMEDIFF: Mapping[str, Mapping[str, str]] = {
    "base": _named(
        """
        all any argmax argmin assign batchMmul=matmul castTo=cast clipByNorm clipByValue=clip concat
        create=full createView=strided_slice cumprod cumsum dot dynamicPartition dynamicStitch
        eq=equal expandDims fill=full flatten gather gatherNd gt=greater gte=greater_equal identity
        invertPermutation isNumericTensor linspace lt=less lte=less_equal matchCondition
        matchConditionCount max mean merge min minMax mmul=matmul neq=not_equal norm1 norm2=norm
        normmax=norm_max oneHot onesLike permute=transpose prod range=arange rank repeat
        replaceWhere reshape reverse=flip reverseSequence scalarFloorMod=mod scalarMax=maximum
        scalarMin=minimum scalarSet=full_like scatterAdd scatterDiv scatterMax scatterMin scatterMul
        scatterNdAdd scatterNdSub scatterNdUpdate scatterSub scatterUpdate segmentMax segmentMean
        segmentMin segmentProd segmentSum sequenceMask setShape=reshape shape=shape_of size=size_of
        sizeAt slice sparseToDense split splitV=split squaredNorm squeeze stack
        standardDeviation=std stridedSlice sum switchOp=switch tensorMmul=tensordot tile transpose
        unsortedSegmentMax unsortedSegmentMean unsortedSegmentMin unsortedSegmentProd
        unsortedSegmentSqrtN unsortedSegmentSum unstack variance=var where whereNumpy=nonzero
        zerosLike
        """
    ),
    "math": _named(
        """
        abs acos=arccos acosh=arccosh add and=logical_and asin=arcsin asinh=arcsinh asum=norm1
        atan=arctan atan2=arctan2 atanh=arctanh bitShift=left_shift bitShiftRight=right_shift
        bitShiftRotl=rotate_left bitShiftRotr=rotate_right ceil clipByAvgNorm clipByNorm
        clipByValue=clip confusionMatrix cos cosh cosineDistance=cosine_separation cosineSimilarity
        countNonZero=count_nonzero countZero cross cube diag diagPart div divNoNan
        embeddingLookup=embedding entropy erf erfc euclideanDistance exp expm1 eye firstIndex floor
        floorDiv floorMod=mod hammingDistance iamax=arg_abs_max iamin=arg_abs_min isFinite
        isInfinite=is_inf isMax isNaN=is_nan isNonDecreasing isStrictlyIncreasing jaccardDistance
        lastIndex lgamma listDiff log log1p logEntropy logSumExp=logsumexp manhattanDistance
        matrixDeterminant=det matrixInverse=inv max=maximum mean mergeAdd=add_n mergeAvg mergeMax
        mergeMaxIndex meshgrid min=minimum mod moments mul neg norm1 norm2=norm normMax
        normalizeMoments or=logical_or pow prod rationalTanh rdiv reciprocal rectifiedTanh
        reduceAMax=norm_max reduceAmean=abs_mean reduceAmin=abs_min reduceMax=max reduceMin=min
        round rsqrt rsub setDiag shannonEntropy sign sin sinh sqrt square squaredDifference
        squaredNorm standardize step sub sum tan tanh trace xor=logical_xor zeroFraction
        """
    ),
    "nn": _named(
        """
        batchNorm biasAdd cReLU=crelu dotProductAttention dotProductAttentionV2=attention dropout
        elu gelu=quick_gelu hardSigmoid hardTanh hardTanhDerivative layerNorm leakyRelu
        leakyReluDerivative linear logSigmoid logSoftmax multiHeadDotProductAttention pad
        preciseGelu=gelu prelu relu relu6 reluLayer selu sigmoid
        sigmoidDerivative softmax softplus softsign softsignDerivative swish=silu tanh topK
        rmsNorm skipRmsNorm rmsNormLinear fusedLayerNorm fusedRmsNormSwiglu meanSquare
        fusedNormQuantize
        silu squaredRelu fusedGelu swishMul=swiglu fusedElementwiseChain
        flashAttention groupedQueryAttention slidingWindowAttention windowedAttention
        multiHeadAttention decoderMaskedMha mlaAttention sharedKvAttention turboQuantAttention
        twoWayCrossAttention lightningAttention linearAttentionDecode
        rope fusedRoPE=fused_rope dualRoPE=dual_rope fusedMRoPE=fused_mrope applyAlibi
        relativePositionBias
        kvCacheUpdate kvScatter kvCacheQuantize kvCacheDequantize
        tokenSample gpuTopKSample=top_k_sample gpuTopPSample=top_p_sample typicalPFilter xtcFilter
        ctcGreedyDecoder
        mixtureOfExperts moeSharedExperts moeGate
        selectiveScan mamba2Ssm=mamba2_ssm gatedDeltaRule gatedDeltaNetBlock causalConv1d
        loraMatMul=lora_matmul doraMatMul=dora_matmul lohaMatMul=loha_matmul lokrMatMul=lokr_matmul
        multiLoraMatmul ggmlQMatMulLora=ggml_lora_matmul
        quantizedMatmul ggmlQMatMul=ggml_matmul awqMatmul fp8Matmul smoothQuant
        emaUpdate centerAndSharpen
        fusedGemmSwiglu fusedBiasDropoutResidual columnParallelLinear rowParallelLinear
        perLayerEmbedding visionEmbeddingMerge
        linearCopy=copy reshapeNoCopy=reshape
        """
    ),
    "cnn": _named(
        """
        avgPooling2d=avg_pool2d avgPooling3d=avg_pool3d batchToSpace col2Im=col2im conv1d conv2d
        conv3d deconv2d=conv_transpose2d deconv3d=conv_transpose3d depthToSpace
        depthWiseConv2d=depthwise_conv2d dilation2D=dilation2d extractImagePatches im2Col=im2col
        localResponseNormalization=local_response_norm maxPoolWithArgmax maxPooling2d=max_pool2d
        maxPooling3d=max_pool3d separableConv2d spaceToBatch spaceToDepth upsampling2d upsampling3d
        adaptiveAvgPooling2d=adaptive_avg_pool2d adaptiveMaxPooling2d=adaptive_max_pool2d
        adaptiveAvgPooling3d=adaptive_avg_pool3d deformableConv2d=deform_conv2d
        """
    ),
    "rnn": _named("gru gruCell lstmCell lstmLayer=lstm lstmblock=lstm_block sru sruCell"),
    "loss": _named(
        """
        absoluteDifference cosineDistance ctcLoss=ctc hingeLoss=hinge huberLoss=huber l2Loss logLoss
        logPoisson meanPairwiseSquaredError meanSquaredError sigmoidCrossEntropy softmaxCrossEntropy
        sparseSoftmaxCrossEntropy contrastiveLoss=contrastive
        """
    ),
    "image": _named(
        """
        adjustContrast adjustHue adjustSaturation cropAndResize extractImagePatches hsvToRgb
        imageResize=resize nonMaxSuppression pad randomCrop resizeBiCubic=resize_bicubic
        resizeBiLinear=resize_bilinear rgbToHsv rgbToYiq rgbToYuv yiqToRgb yuvToRgb affineGrid
        """
    ),
    "linalg": _named(
        """
        cholesky cross diag diag_part eig logdet lstsq lu matmul
        matrixBandPart=band_part matrixDeterminant=det matrixInverse=inv mmul=matmul qr solve svd
        tri triangularSolve triu einsum
        """
    ),
    "random": _named(
        "bernoulli binomial exponential logNormal normal normalTruncated=truncated_normal uniform"
    ),
    "bitwise": _named(
        """
        and=bitwise_and or=bitwise_or xor=bitwise_xor bitRotl=rotate_left bitRotr=rotate_right
        bitShift=left_shift bitShiftRight=right_shift bitsHammingDistance leftShift
        leftShiftCyclic=rotate_left rightShift rightShiftCyclic=rotate_right
        """
    ),
    "audio": _named(
        """
        melFilterbank melSpectrogram mfcc griffinLim spectralCentroid spectralRolloff chromaFeatures
        zeroCrossingRate preEmphasis audioNormalize aWeighting pitchDetection
        audioResample=resample
        """
    ),
    "signal": _named("blackmanWindow hammingWindow hannWindow dft stft"),
    "training": _named(
        """
        sgdUpdater=sgd_update nesterovsUpdater=nesterov_update adaGradUpdater=adagrad_update
        adaDeltaUpdater=adadelta_update rmsPropUpdater=rmsprop_update adamUpdater=adam_update
        nadamUpdater=nadam_update adaMaxUpdater=adamax_update amsGradUpdater=amsgrad_update
        adaBeliefUpdater=adabelief_update
        """
    ),
}
"""SameDiff's namespace -> its name for an op -> our name for it."""

SHARED: Mapping[str, str] = {
    "diag_part": "diag_part and diagPart are two spellings of one name",
    "full": "create allocates an array of a shape, which in a graph needs values: zeros by default",
    "left_shift": "bitShift and leftShift both shift towards higher bits",
    "matmul": "mmul, batchMmul and matmul are one product whose leading axes are a batch",
    "max": "reduceMax is max over axes",
    "maximum": "scalarMax is the elementwise maximum with a number, which broadcasts",
    "min": "reduceMin is min over axes",
    "minimum": "scalarMin is the elementwise minimum with a number, which broadcasts",
    "mod": "floorMod, mod and scalarFloorMod all take the sign of the divisor",
    "norm1": "asum, the sum of magnitudes, is the 1-norm",
    "norm_max": "normmax and normMax are two spellings of one name",
    "reshape": "reshapeNoCopy is reshape: whether a copy is made is the plan's affair",
    "right_shift": "bitShiftRight and rightShift both shift towards lower bits",
    "rotate_left": "bitRotl, bitShiftRotl and leftShiftCyclic rotate towards higher bits",
    "rotate_right": "bitRotr, bitShiftRotr and rightShiftCyclic rotate towards lower bits",
    "silu": "swish with beta 1, as SameDiff has it, is silu",
    "split": "splitV is split with the sizes given",
    "strided_slice": "createView picks by points and intervals; an array of a graph has no views",
    "transpose": "permute is transpose with the axes given",
}
"""Our ops that several names of SameDiff mean, and why they are the same."""
