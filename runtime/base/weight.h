/* weight.h - the weight of one linear layer as its checkpoint holds it: views into mapped files, nothing owned.
 *
 * The loader fills it, the kernels read slices of it into their own layout. y[n] = sum over k of x[k] * w(k, n) + bias.
 * Pointers may be unaligned (safetensors does not align its data): read elements with memcpy.                        */
#ifndef YK_BASE_WEIGHT_H
#define YK_BASE_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

typedef enum yk_weight_format {
  YK_WEIGHT_PLAIN, /* 16- or 32-bit floats */
  YK_WEIGHT_AWQ    /* 4-bit integers with a scale and a zero point a group: w = scale * (q - zero) */
} yk_weight_format;

/* How a checkpoint packs the integers of YK_WEIGHT_AWQ. Devices read YK_INT4_AWQ_GEMM alone; whoever loads a layer
 * brings the others into that order first (loader/int4.h). The element type of scales is the view's dtype. */
typedef enum yk_int4_packing {
  YK_INT4_AWQ_GEMM,      /* qweight u32 [k, n/8], qzeros u32 [k/group, n/8], scales [k/group, n]; nibbles as below */
  YK_INT4_AWQ_GEMV,      /* u32 [n, k/8]; u32 [n, z]; [n, 8 z], where z is k/group/8 rounded up: see int4_awq.c */
  YK_INT4_AWQ_GEMV_FAST, /* i16 [n/4, k]; zeros times scales, negative, dtype [8 z, n]; scales [8 z, n] */
  YK_INT4_GPTQ,          /* u32 [k/8, n]; u32 [k/group, n/8]; [k/group, n]; nibbles in order */
  YK_INT4_COMPRESSED,    /* u32 [n, k/8]; u32 [n/8, k/group]; [n, k/group]; nibbles in order */
  YK_N_INT4_PACKINGS
} yk_int4_packing;

typedef struct yk_weight_view {
  yk_weight_format format;
  int64_t k, n;            /* inputs, outputs of the whole layer */
  int64_t group;           /* AWQ: rows of K that share a scale; divides k (whole K: group == k). PLAIN: 0 */
  yk_dtype dtype;          /* of plain, or of scales */
  const void *plain;       /* PLAIN: [n, k] row-major */
  yk_int4_packing packing; /* AWQ: shapes of the next three */
  const void *qweight;
  const void *qzeros; /* NULL in a checkpoint: every zero is 8. Devices want them */
  const void *scales;
  bool zeros_less_one; /* GPTQ: qzeros hold zero - 1 */
  const char *tensor;  /* AWQ: the name of qweight's tensor in the checkpoint, for messages; may be NULL */
  const void *bias;    /* [n] of bias_dtype, or NULL */
  yk_dtype bias_dtype;
} yk_weight_view;

/* AWQ "gemm" packing: column j (0..7) of a word's eight columns sits at bit 4 * YK_AWQ_NIBBLE_OF_COLUMN[j], so that its
 * nibble i holds column YK_AWQ_COLUMN_OF_NIBBLE[i]. */
#define YK_AWQ_NIBBLE_OF_COLUMN                                                                                        \
  {                                                                                                                    \
    0, 4, 1, 5, 2, 6, 3, 7                                                                                             \
  }
#define YK_AWQ_COLUMN_OF_NIBBLE                                                                                        \
  {                                                                                                                    \
    0, 2, 4, 6, 1, 3, 5, 7                                                                                             \
  }

#endif
