/* The last include of a tier's file: all of the table from the kernels above. */
#ifndef KN_COMPUTE_CPU_SIMD_TABLE_H
#define KN_COMPUTE_CPU_SIMD_TABLE_H

static void fill_table(kn_kernels *k, const char *name) {
    k->name = name;
    k->columns = COLUMNS;
    k->decode[KN_F32] = decode_f32;
    k->decode[KN_F16] = decode_f16;
    k->decode[KN_BF16] = decode_bf16;
    k->decode[KN_F8_E4M3] = decode_e4m3;
    k->decode[KN_F8_E5M2] = decode_e5m2;
    k->decode[KN_I8] = decode_i8;
    k->decode[KN_Q4_0] = decode_q4_0;
    k->decode[KN_Q8_0] = decode_q8_0;
    k->decode[KN_Q4_K] = decode_q4_k;
    k->decode[KN_Q5_K] = decode_q5_k;
    k->decode[KN_Q6_K] = decode_q6_k;
    k->transpose = transpose;
    k->gather = gather;
    k->product = product;
    k->dots = dots;
    k->softmax = softmax;
    k->silu = silu;
    k->gelu_tanh = gelu_tanh;
    k->tanh = tanh_all;
    k->mish = mish;
    k->multiply = multiply;
    k->add = add;
    k->add_gated = add_gated;
    k->sigmoid_gate = sigmoid_gate;
    k->swiglu = swiglu;
    k->is_finite = is_finite;
    k->prelu = prelu;
    k->rms_norm = rms_norm;
    k->norm_modulate = norm_modulate;
    k->unit_norm = unit_norm;
    k->affine = affine;
    k->moments = moments;
    k->rotate = rotate;
    k->stage = stage;
    k->unit_factors = unit_factors;
    k->depthwise = depthwise;
    k->tile_weight[KN_TILING_PLAIN] = tile_weight_plain;
    k->tile_weight[KN_TILING_DOUBLED] = tile_weight_doubled;
    k->tile_input[KN_TILING_PLAIN] = tile_input_plain;
    k->tile_input[KN_TILING_DOUBLED] = tile_input_doubled;
    k->tile_output[KN_TILING_PLAIN] = tile_output_plain;
    k->tile_output[KN_TILING_DOUBLED] = tile_output_doubled;
    k->turn_groups = turn_groups;
    k->round_int8 = round_int8;
}

#endif
