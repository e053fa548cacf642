/* weight.h - the weight of one linear layer in its checkpoint's form: views into mapped files, nothing owned.
 *
 * The loader fills the view; the kernels read slices of it into their own layout. y[n] = sum over k of x[k] * w(k, n) +
 * bias. Pointers may be unaligned (safetensors does not align its data): read elements with memcpy. */
#ifndef YK_KERNELS_WEIGHT_H
#define YK_KERNELS_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum yk_weight_format {
  YK_WEIGHT_PLAIN, /* 16- or 32-bit floats */
  YK_WEIGHT_AWQ,   /* 4-bit integers with a scale and a zero point per group: w = scale * (q - zero) */
  YK_WEIGHT_INT8,  /* 8-bit signed integers, as above; zero points may be fractional or absent */
  YK_WEIGHT_FP8,   /* float8 e4m3fn, which has no infinity, with a scale per group: w = scale * f8 */
  YK_WEIGHT_FP4,   /* float4 e2m1, with a scale per group: w = scale * f4 */
  YK_N_WEIGHT_FORMATS
} yk_weight_format;

/* Properties of a format that hold for every packing and every device. */
typedef struct yk_weight_traits {
  const char *name; /* name of its elements, for messages */
  int bits;         /* bits per element; 0: those of the view's dtype */
} yk_weight_traits;

static inline const yk_weight_traits *yk_weight_traits_of(yk_weight_format format)
{
  static const yk_weight_traits traits[YK_N_WEIGHT_FORMATS] = {
      {"floats", 0}, {"4-bit integers", 4}, {"8-bit integers", 8}, {"8-bit floats", 8}, {"4-bit floats", 4}};
  return &traits[format];
}

/* yk_weight_is_quantised - whether elements are codes with scales. */
static inline bool yk_weight_is_quantised(yk_weight_format format)
{
  return yk_weight_traits_of(format)->bits > 0;
}

/* How a checkpoint packs the codes of a quantised weight: b bits per element (AWQ, FP4: 4, the others 8), g = k/group
 * groups. Devices read only YK_PACKING_AWQ_GEMM for AWQ and YK_PACKING_ROWS for the other formats; the loader first
 * repacks the other packings into these (loader/integers). The element type of scales is the view's dtype, unless the
 * packing has another one. */
typedef enum yk_packing {
  YK_PACKING_AWQ_GEMM,      /* AWQ: qweight u32 [k, n/8], qzeros u32 [g, n/8], scales [g, n]; nibbles as below */
  YK_PACKING_AWQ_GEMV,      /* AWQ: u32 [n, k/8]; u32 [n, z]; [n, 8 z], where z is g/8 rounded up: see int4_awq.c */
  YK_PACKING_AWQ_GEMV_FAST, /* AWQ: i16 [n/4, k]; zeros times scales, negative, dtype [8 z, n]; scales [8 z, n] */
  YK_PACKING_GPTQ,          /* AWQ, INT8: u32 [k b/32, n]; u32 [g, n b/32]; [g, n]; unsigned elements in order */
  YK_PACKING_COMPRESSED,    /* AWQ, INT8: u32 [n, k b/32]; u32 [n b/32, g]; [n, g]; likewise, sizes rounded up */
  YK_PACKING_ROWS,          /* INT8, FP8: bytes [n, k]; qzeros of dtype [n, g]; scales [n, g]; g rounded up. FP4, for
                             * devices only: a code per byte */
  YK_PACKING_BLOCKS,        /* INT8, FP8: bytes [n, k]; no zeros; scales [n/group_n, g], both rounded up */
  YK_PACKING_PRODUCTS,      /* INT8, STATIC inputs: bytes [n, k]; no zeros; scales f32 [n] of sums of products */
  YK_PACKING_PRODUCTS_I64,  /* likewise, but each scale is the lower half of an i64 */
  YK_PACKING_BYTES,         /* AWQ: signed bytes [n, k] from -8 to 7; no zeros; scales [n, g] */
  YK_PACKING_NVFP4,         /* FP4: u8 [n, k/2], even k in the lower half; scales e4m3 [n, g] / global_scale */
  YK_PACKING_NVFP4_FACTOR,  /* likewise, but the scales are multiplied by global_scale */
  YK_PACKING_MXFP4,         /* FP4: likewise; scales e8m0 [n, g], powers of 2 */
  YK_PACKING_MXFP8,         /* FP8: bytes [n, k]; scales e8m0 [n, g] */
  YK_N_PACKINGS
} yk_packing;

/* Quantisation of the inputs of a layer: of INT8 weights to 8-bit integers (kernels/cpu/linear/format_w8a8.c), of AWQ
 * weights to 8-bit floats or integers. With YK_INPUTS_FLOAT the layer multiplies floats. */
typedef enum yk_inputs_kind {
  YK_INPUTS_FLOAT,
  YK_INPUTS_PER_TOKEN, /* a row's scale is its largest magnitude over 127, taken over the whole row on all ranks */
  YK_INPUTS_STATIC,    /* scale and zero come from the checkpoint */
  YK_INPUTS_FP8,       /* AWQ, a request of the checkpoint: yk_linear_rounds_inputs (linear.h) has the definition */
  YK_INPUTS_INT8       /* likewise */
} yk_inputs_kind;

typedef struct yk_inputs {
  yk_inputs_kind kind;
  float scale;  /* STATIC: above 0; x = scale * (q - zero) */
  int32_t zero; /* STATIC: -128 .. 127 */
} yk_inputs;

static inline bool yk_inputs_are_alike(const yk_inputs *a, const yk_inputs *b)
{
  return a->kind == b->kind && a->scale == b->scale && a->zero == b->zero;
}

/* Limit of a layer with quantised inputs, over all ranks: sums of products fit in 32 bits. */
enum { YK_MAX_QUANTISED_INPUTS = 1 << 16 };

/* A device receives slices of INT8, FP8 and FP4 weights as separate weights: in ROWS, with scales and zeros of float32
 * and with the part's group_local as group. */
typedef struct yk_weight_view {
  yk_weight_format format;
  int64_t k, n; /* inputs, outputs of the whole layer */
  /* Number of inputs that share a scale; k if all do. AWQ, FP4: divides k. INT8, FP8: the last group may be short.
   * PLAIN: 0 */
  int64_t group;
  int64_t group_n;   /* BLOCKS: outputs that share a scale; the last such group may be short */
  yk_dtype dtype;    /* type of plain, otherwise of scales */
  const void *plain; /* PLAIN: [n, k] row-major */
  /* PLAIN, within the loader: elements between neighbouring inputs of a transposed matrix, where the weight of input k
   * and output n is element k * plain_stride + n of plain. 0: plain is [n, k], as devices always receive it. */
  int64_t plain_stride;
  yk_packing packing;  /* for the other formats: shapes of the next three */
  const void *qweight; /* INT8: signed in ROWS; other packings add 128 to elements and zeros */
  const void *qzeros;  /* NULL in a checkpoint: every zero is 8 (AWQ; devices need them), 0 (INT8) */
  const void *scales;
  const void *global_scale; /* NVFP4, NVFP4_FACTOR: f32; NULL for others and if the data is not loaded */
  bool zeros_less_one;      /* GPTQ: qzeros hold zero - 1 */
  bool act_order; /* groups are not ranges of neighbouring inputs; false in a device's weights (group_order.h) */
  /* With act_order: i32 [k], the group of each input, from 0 to k / group - 1. NULL if the data is not loaded, and for
   * an expert that, unlike the other experts of its layer, has groups of neighbours. */
  const void *g_idx;
  bool has_zeros; /* INT8: zeros are stored, even if the data is not loaded */
  /* INT8 with a scale for each output (group == k) and no zeros: FLOAT, PER_TOKEN, STATIC; AWQ: FLOAT, FP8, INT8; all
   * others: FLOAT */
  yk_inputs inputs;
  const char *tensor; /* the name of plain's or qweight's tensor in the checkpoint; may be NULL */
  const void *bias;   /* [n] of bias_dtype, or NULL */
  yk_dtype bias_dtype;
  /* Data that repacking the layer adds to the bias (loader/integers/folded_bias.h); devices never receive it.
   * folds_bias: such data exists, even if it is not loaded. */
  bool folds_bias;
  const void *product_bias; /* i32 [n] or NULL: for STATIC inputs, added to sums of integer products, zeros included */
  const void *x_offset;     /* [k] of x_offset_dtype, or NULL: added to every row of x */
  yk_dtype x_offset_dtype;
} yk_weight_view;

/* A rank's slice of a weight: inputs [k_begin, k_end), outputs [n_begin, n_end), neither empty. */
typedef struct yk_weight_slice {
  int64_t k_begin, k_end, n_begin, n_end;
} yk_weight_slice;

/* An order of inputs and outputs that differs from the weight's. The slice's ranges then count positions from 0. */
typedef struct yk_slice_order {
  /* [k_end] the weight's input at each position, or -1: none, a zero. NULL: the weight's order */
  const int32_t *inputs;
  const int32_t *groups;  /* [k_end / group] if inputs is given: the weight's group for each local group */
  int64_t group;          /* consecutive positions in a local group */
  const int32_t *outputs; /* [n_end] the weight's output at each position. NULL: the weight's order */
} yk_slice_order;

/* AWQ "gemm" packing: column j (0..7) of a word's eight columns is at bit 4 * YK_AWQ_NIBBLE_OF_COLUMN[j], so nibble i
 * holds column YK_AWQ_COLUMN_OF_NIBBLE[i]. */
#define YK_AWQ_NIBBLE_OF_COLUMN                                                                                        \
  {                                                                                                                    \
    0, 4, 1, 5, 2, 6, 3, 7                                                                                             \
  }
#define YK_AWQ_COLUMN_OF_NIBBLE                                                                                        \
  {                                                                                                                    \
    0, 2, 4, 6, 1, 3, 5, 7                                                                                             \
  }

#endif
