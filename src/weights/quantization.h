/* How the weights under a prefix are quantised: scaled FP8 and INT8, in the three ways in which files mark them,
 * brought into one list.
 *
 * (a) the header's metadata key "_quantization_metadata", JSON that names layers;
 * (b) byte tensors "<layer>.comfy_quant", JSON for one layer each;
 * (c) a marker tensor "<prefix>scaled_fp8" for everything below its prefix, with older names for the scales.
 * A layer is a tensor's name without ".weight". What (a) says of an FP8 layer replaces what (b) says of it, what (b)
 * says of an INT8 layer stands; both go before (c). INT8 layers may do without any mark: their scale is enough. Only
 * keys under the prefix are judged, so that one component of an all-in-one file does not fail for another. */
#ifndef KN_WEIGHTS_QUANTIZATION_H
#define KN_WEIGHTS_QUANTIZATION_H

#include "weights/container.h"

enum { KN_QUANT_MARKERS_MAX = 16 }; /* of (c): one for each component of an all-in-one file */

typedef struct kn_quant_layer {
    const kn_entry *weight;
    float scale;                   /* multiplies every decoded element, where there is one for all */
    const kn_entry *row_scales;    /* INT8: one scale for each row; NULL: the one above is for all of them */
    uint64_t turned_group;         /* INT8: so many elements were turned together ("convrot"); 0: none were */
    float input_scale;             /* FP8: of the activations, for products in FP8; 1: none */
    bool full_precision;           /* "full_precision_matrix_mult" */
    bool listed, recorded, marked; /* by (a), (b), (c) */
} kn_quant_layer;

typedef struct kn_quantization {
    kn_quant_layer *layer; /* [count], by the weight's name: every FP8 or INT8 matrix under the prefix */
    size_t count;
    const kn_entry *marker[KN_QUANT_MARKERS_MAX]; /* the markers that reach under the prefix */
    size_t marker_count;
} kn_quantization;

/* The metadata key of (a). */
extern const char kn_quant_list_key[];

/* What to use instead of a format that is not supported. */
extern const char kn_quant_instead[];

/* Refuses, naming the layer, what contradicts itself and formats that are not supported. */
bool kn_quantization_read(const kn_weights *w, const char *prefix, kn_quantization *ret, kn_error *err);
void kn_quantization_free(kn_quantization *q);

/* The layer of this weight; NULL: not quantised. */
const kn_quant_layer *kn_quantization_find(const kn_quantization *q, const kn_entry *weight);

/* Suffixes of the keys that belong to a quantised layer beside its ".weight"; those of scales come first. */
enum { KN_QUANT_SCALES = 4, KN_QUANT_COMPANIONS = 5 };
extern const char *const kn_quant_companions[KN_QUANT_COMPANIONS];

#endif
