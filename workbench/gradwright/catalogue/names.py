"""The ops of each family; written by python -m gradwright.ops.stubs."""

NAMES = {
    "adapters": """
        dora_matmul loha_matmul lokr_matmul lora_matmul multi_lora_matmul
    """,
    "arithmetic": """
        abs_mean abs_min arg_abs_max arg_abs_min betaln bit_cast bits_hamming_distance bitwise_and
        bitwise_not bitwise_or bitwise_xor clip_by_avg_norm clip_by_norm copysign cosine_separation
        cosine_similarity count_zero cube diag_part diff digamma div_no_nan entropy erfinv
        euclidean_distance exp2 eye_like fmod gcd hamming_distance heaviside hypot is_close
        jaccard_distance kron lcm left_shift lerp lgamma log_entropy logaddexp logit
        manhattan_distance median merge_avg merge_max merge_max_index meshgrid min_max moments
        nan_to_num nanmean nansum norm1 norm_max normalize_moments polygamma popcount quantile
        rational_tanh rdiv rectified_tanh right_shift rotate_left rotate_right rsub set_diag
        shannon_entropy sinc squared_norm standardize step trace trunc xlogy zero_fraction
    """,
    "arrays": """
        assign bincount compress confusion_matrix cummax cummin cumprod dynamic_partition
        dynamic_stitch first_index full_like histogram invert_permutation is_max is_non_decreasing
        is_numeric_tensor is_strictly_increasing last_index linear_scan list_diff logcumsumexp
        match_condition match_condition_count merge put_slice rank repeat replace_where
        reverse_sequence scatter_div scatter_max scatter_min scatter_mul scatter_nd_max
        scatter_nd_min scatter_nd_mul scatter_nd_sub scatter_sub searchsorted segment_max
        segment_mean segment_min segment_prod segment_sum sequence_mask shift size_at slice
        sparse_to_dense switch unique unravel_index unsorted_segment_max unsorted_segment_mean
        unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum
    """,
    "attention": """
        apply_alibi attention decoder_masked_mha dot_product_attention dual_rope flash_attention
        flash_attention_grad flash_attention_grad_grad flex_attention fused_mrope fused_rope
        grouped_query_attention kv_cache_dequantize kv_cache_quantize kv_cache_update kv_scatter
        kv_take lightning_attention linear_attention linear_attention_decode masked_softmax
        mla_attention multi_head_attention multi_head_dot_product_attention relative_buckets
        relative_position_bias rope rope_cos_sin rotate_pairs shared_kv_attention
        sliding_window_attention token_sample top_k_sample top_p_sample turbo_quant_attention
        turbo_quantize two_way_cross_attention typical_p_filter visible_keys windowed_attention
        xtc_filter
    """,
    "convolutions": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d adaptive_places along_axes_grad batch_to_space
        col2im conv_transpose1d conv_transpose2d conv_transpose3d deform_conv2d depth_to_space
        depthwise_conv2d dilation2d extract_image_patches global_lp_pool im2col local_response_norm
        lp_pool1d lp_pool2d lp_pool3d max_pool_with_argmax max_unpool row_products separable_conv2d
        space_to_batch space_to_depth upsampling1d upsampling2d upsampling3d weighted_rows
        weighted_rows_add
    """,
    "draws": """
        binomial categorical exponential gumbel laplace log_normal permutation poisson randint
    """,
    "experts": """
        grouped_matmul grouped_matmul_grad mixture_of_experts moe_gate moe_shared_experts
    """,
    "images": """
        adjust_contrast adjust_hue adjust_saturation affine_grid crop_and_resize grid_sample
        hsv_to_rgb non_max_suppression random_crop random_crop_grad resize resize_bicubic
        resize_bilinear rgb_to_hsv rgb_to_yiq rgb_to_yuv roi_align roi_taps yiq_to_rgb yuv_to_rgb
    """,
    "layers": """
        bias_add celu center_and_sharpen column_parallel_linear copy crelu ctc_collapse
        ctc_greedy_decoder embedding_bag fused_bias_dropout_residual fused_elementwise_chain
        fused_gelu fused_gemm_swiglu fused_layer_norm fused_norm_quantize fused_rms_norm_swiglu
        geglu glu group_norm hard_shrink hard_swish hard_tanh hard_tanh_derivative hardmax
        instance_norm leaky_relu_derivative log_sigmoid lp_normalize mean_square
        mean_variance_normalization mish per_layer_embedding prelu quick_gelu reglu relu_layer
        rms_norm_linear row_parallel_linear selu shrink sigmoid_derivative skip_rms_norm soft_shrink
        softsign softsign_derivative squared_relu standard_rows standard_rows_grad swiglu swish
        tanh_derivative tanh_shrink thresholded_relu vision_embedding_merge
    """,
    "losses": """
        attention_distillation contrastive cosine_embedding ctc ctc_curvature ctc_grad ctc_of_logs
        dice distillation_kl feature_distillation gaussian_nll generalized_jsd hinge_embedding
        log_cosh margin_ranking mean_squared_log_error multi_margin nll pinball poisson_nll
        sigmoid_focal smooth_l1 soft_margin triplet_margin
    """,
    "matrices": """
        adjugate adjugate_slope band_part cholesky condition_number cross det eig eigh eigh_beside
        eigvals eigvalsh gap_reciprocal inv logdet lstsq lu matrix_exp matrix_power matrix_rank
        multi_dot pinv qr slogdet solve svd svd_beside svdvals tri triangular_solve vander
    """,
    "quantised": """
        awq_matmul conv_integer dequantize_blockwise dequantize_ggml dequantize_linear
        dequantize_nf4 dynamic_quantize_linear fake_cast fake_quantize fp8_matmul fp8_product
        ggml_lora_matmul ggml_matmul matmul_integer nf4_matmul packed_matmul_grad qlinear_conv
        qlinear_matmul quantize_blockwise quantize_fp8 quantize_ggml quantize_linear quantize_nf4
        quantized_matmul scaled_matmul smooth_quant update_fp8_scale
    """,
    "recurrent": """
        causal_conv1d gated_delta_net_block gated_delta_rule gru gru_cell lstm lstm_block lstm_cell
        mamba2_ssm recurrent_grad recurrent_steps rnn rnn_cell selective_scan sru sru_cell
        unit_lower_inverse
    """,
    "sequences": """
        at concat_from_sequence construct empty erase insert length optional optional_get_element
        optional_has_element place_item put split_items split_to_sequence
    """,
    "signals": """
        a_weighting audio_normalize blackman_window chroma_features chroma_filterbank
        cut_or_pad_like dct_matrix dft fft frame griffin_lim hamming_window hann_window ifft irfft
        irfft_grad istft lanczos_kernel mel_filterbank mel_spectrogram mel_weight_matrix mfcc
        overlap_add pitch_detection pre_emphasis resample rfft rfft_grad spectral_centroid
        spectral_rolloff stft view_as_complex view_as_real zero_crossing_rate
    """,
    "texts": """
        label_encoder regex_full_match string_concat string_normalizer string_split
        tf_idf_vectorizer
    """,
    "updates": """
        accumulate_gradient adabelief_update adadelta_update adafactor_matrix_update
        adafactor_update adagrad_step adagrad_update adam8bit_update adam_step adamax_update
        amsgrad_update centered_rmsprop_update ema_update lamb_update lion_update momentum_step
        muon_update nadam_momentum nadam_share_update nadam_update nesterov_update newton_schulz
        radam_update rmsprop_update scale_loss schedule_free_share schedule_free_update
        unscale_gradients update_loss_scale with_gradient
    """,
}
