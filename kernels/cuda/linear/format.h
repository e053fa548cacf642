/* format.h - the CUDA device's table of weight formats.
 *
 * A row of the table is one way to keep a part of a linear layer (kernels/linear.h) in GPU memory: which views of the
 * checkpoint it takes, how it is repacked, and which kind of GEMM multiplies it. Neighbouring parts whose rows name one
 * kind of GEMM and give one fuse_key are one GEMM over the columns of both. layout.c and linear.c walk the table and do
 * all that formats share; nobody outside a format's file asks which format a part has.
 *
 *   linear_bytes     takes -> fuse_key -> weight_bytes (layout.c, in every build)
 *   linear_create    check -> the same -> plan, workspace_bytes, for every GEMM
 *                    -> load, for every part of every matrix; biases
 *   linear_forward   for every GEMM, in blocks of rows: x into the order of the GEMM's inputs, where that is another ->
 *                    quantise, where the kind has it -> forward -> y, or the scratch and from there to y: a copy, or
 *                    (kinds without an epilogue) bias, SiLU * up and rounding
 *   linear_sums      the same, but forward writes sums; linear_scale: scale_sums (sums.c)
 *
 *   grouped forward  for the one GEMM that experts' layers have: x of each slot into the order of the GEMM's inputs,
 *                    where that is another -> forward_grouped (grouped.h)
 *
 *   row               takes                                                            kind of GEMM
 *   awq               AWQ slices of whole words and groups of 32 k or more, no         W4A16: 4 bits in memory
 *                     float32 output; none that are to be as 16 bits
 *   awq as 16 bits    every AWQ slice: each weight is rounded to the activation type   16 bits, cuBLAS
 *   w8a8              int8 slices whose inputs are quantised, no float32 output; none  W8A8: x is quantised, integers
 *                     that are to be as 16 bits; grouped ones per token alone          are multiplied
 *   int8, fp8         slices of whole groups of 32 k or more whose inputs are floats,  W8A16: 8 bits in memory
 *                     no float32 output
 *   int8 as 16 bits   those in an order of their own that the row before does not      16 bits, cuBLAS
 *                     take; all others come dequantised, as plain ones
 *   plain             every plain slice, converted to the activation type              16 bits, cuBLAS
 *
 * The first row that takes a part has it. Gate and up of SiLU * up must be one GEMM: they get the first pair of rows
 * that take them and fuse. Parts of one GEMM have their inputs in one order; a gate and an up whose orders differ,
 * which no quantiser of both writes, become 16 bits in the order of x, and more than was planned.
 *
 * To add a format (an int8 weight, say), write format_NAME.c beside this file with a `const yk_cuda_format` and, unless
 * a kind that exists will do, a `const yk_cuda_gemm_kind`; declare the row at the end of this header and list it in
 * format.c. Kernels of a new kind get a folder of their own beside gemm/. tests/op/test_op_cuda_format.c is a whole
 * example: int8 weights, multiplied with int8 activations and, where that kind does not take a layer, as 16 bits. */
#ifndef YK_KERNELS_CUDA_LINEAR_FORMAT_H
#define YK_KERNELS_CUDA_LINEAR_FORMAT_H

#include <stddef.h>

#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_device yk_cuda_device;
typedef struct yk_cuda_gemm_kind yk_cuda_gemm_kind;

/* Neighbouring parts of a layer that are one GEMM, and where it lies. */
typedef struct yk_cuda_gemm {
  const yk_cuda_gemm_kind *kind;
  int64_t key; /* the parts' fuse_key */
  int first_part, end_part;
  int64_t k, n;             /* n: columns of weights, gate and up both */
  int64_t first_column;     /* of its results within a row of y */
  yk_dtype dtype;           /* of activations */
  yk_activation activation; /* gated, columns [0, n/2) are gates, [n/2, n) ups; y has n/2 columns */
  bool has_bias;            /* of any part; the others' are zeros */
  int64_t weights, bias;    /* bytes from the start of a matrix; bias [n] f32, or act: see has_epilogue */
  int64_t x_size;           /* columns of x where the inputs are in another order, else 0; ... */
  int64_t order;            /* ... then bytes from the start of a matrix: int32 [k], the column of each input, or -1 */
  bool is_resident;         /* the weights are not in the layer's memory but at resident, and stay there */
  const void *resident;
} yk_cuda_gemm;

static inline int64_t yk_cuda_gemm_columns_of_y(const yk_cuda_gemm *gemm)
{
  return gemm->activation.is_gated ? gemm->n / 2 : gemm->n;
}

/* The activation in the epilogue of a GEMM that has one: a gated one. A kernel behind the GEMM applies others. */
static inline yk_activation yk_cuda_gemm_activation(const yk_cuda_gemm *gemm)
{
  const yk_activation none = YK_NO_ACTIVATION;
  return gemm->activation.is_gated ? gemm->activation : none;
}

/* One GEMM over a block of rows. */
typedef struct yk_cuda_gemm_call {
  const yk_cuda_gemm *gemm;
  const void *plan;      /* of the kind's plan function; else NULL */
  const void *weights;   /* device: of the matrix */
  const void *bias;      /* device [n]; NULL without one, and for kinds without an epilogue */
  const void *x;         /* device act [n_rows, k] */
  const void *quantised; /* device: what quantise wrote for these rows; NULL for kinds without */
  void *y;               /* device, of y_dtype [n_rows, y_stride]; NULL: sums is written instead */
  int32_t *sums;         /* device [n_rows, n]: see yk_linear_sums_args */
  yk_dtype y_dtype;
  int64_t y_stride, n_rows;
} yk_cuda_gemm_call;

/* What one kernel does beside a grouped GEMM: only what the plan of a mixture (moe/plan.h) has found it to take. */
typedef struct yk_cuda_grouped_fusion {
  const yk_combine_args *combine; /* the combination of the slots y, in place of y; NULL: y is written */
  const yk_linear *shared;        /* the layer of a shared expert that is of one GEMM; NULL: none */
  const yk_linear_args *shared_args;
} yk_cuda_grouped_fusion;

/* One GEMM of a grouped forward: all matrices, each over rows of its own. */
typedef struct yk_cuda_grouped_call {
  const yk_cuda_gemm *gemm;
  const void *weights;  /* device: of matrix 0 */
  const void *bias;     /* device [n] of matrix 0, act where the kind has an epilogue, else f32; or NULL */
  int64_t matrix_bytes; /* from a matrix to the next */
  int32_t n_matrices;
  const yk_grouped_args *args;
  bool starts_are_settled; /* args->starts were complete before the kernel in front could begin */
  const yk_combine_args *combine;
  const yk_cuda_gemm *shared; /* the only GEMM of the fusion's shared layer, and its weights; NULL: none, or several */
  const void *shared_weights;
  const yk_linear_args *shared_args;
} yk_cuda_grouped_call;

/* A kind of GEMM. Functions above the line are arithmetic, which plans call too, for weights whose data is not there.
 * Those below need the GPU; builds without CUDA leave them NULL. */
struct yk_cuda_gemm_kind {
  const char *name;
  int variant; /* for kinds that share their functions: which of them this is */

  /* The GEMM itself adds the bias, multiplies SiLU(gate) with up and rounds: y is act, whether in place or in the
   * scratch. Such a kind's rows take no layer of float32 output. Otherwise y is x W^T alone: float32 [n_rows, n] in the
   * scratch, to which linear.c adds the float32 bias and the epilogue; in place, whatever type y has.
   * f32_bias: the GEMM adds biases of float32, else of act. */
  bool has_epilogue, f32_bias;

  /* weight_bytes - of a GEMM's weights, with scales and all, in one matrix. */
  int64_t (*weight_bytes)(const yk_cuda_gemm *gemm);

  /* uses_resident - whether the layer's one GEMM multiplies the weights that are on the device already. NULL: no. */
  bool (*uses_resident)(const yk_linear_spec *spec);

  /* grouped_staging_bytes - bytes of yk_grouped_args.staging that a grouped forward of max_slots slots needs. NULL:
   * 0. */
  int64_t (*grouped_staging_bytes)(const yk_cuda_gemm *gemm, int64_t max_slots);

  /* ---- */

  /* plan - called once for each GEMM of a layer: a block from malloc, for forward to read, that says which kernel runs
   * how many rows; freed with the layer. NULL: forward needs none. Errors: YK_E_NOMEM. */
  yk_status (*plan)(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void **plan, yk_err *err);

  /* workspace_bytes - bytes of cuda->gemm_workspace that forwards of 1 to max_tokens rows need. All kinds share the
   * workspace: it is zeroed once, and each forward leaves it zeroed. NULL: 0. */
  size_t (*workspace_bytes)(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int32_t max_tokens);

  /* Quantised activations, for a kind that multiplies integers; both NULL for one that multiplies act.
   * quantised_bytes - for n_rows rows of x with their scales, in the device's scratch behind the results.
   * quantise - device to [quantised_bytes] = x act [n_rows, k], before forward on the same rows. maxima: of the whole
   * rows on all ranks, as in yk_linear_sums_args; NULL where x is the whole rows. */
  int64_t (*quantised_bytes)(const yk_cuda_gemm *gemm, int64_t n_rows);
  yk_status (*quantise)(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *to, const void *x, const int32_t *maxima,
                        int64_t n_rows, yk_err *err);

  /* scale_sums - call's y = its integer sums, added up over ranks, times the scales of x and of the weights, plus bias.
   * maxima: as for quantise. NULL: the kind has no sums. */
  yk_status (*scale_sums)(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, const int32_t *maxima, yk_err *err);

  /* writes_in_place - whether forward can write y, rows y_stride elements apart, as the caller wants it. NULL: always,
   * and nothing of the scratch is kept for results. */
  bool (*writes_in_place)(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride);

  /* forward - asynchronous; may be recorded in a graph. k may be 0 if the rows of the format take such slices.
   * Errors: YK_E_DEVICE. */
  yk_status (*forward)(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err);

  /* forward_grouped - the same for a grouped forward: bias and epilogue included, y in place, rounded to act.
   * call->combine and call->shared are NULL for kinds that fuse neither. NULL: the kind takes no grouped layer.
   * Errors: YK_E_DEVICE. */
  yk_status (*forward_grouped)(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err);
};

/* One row of the table. */
typedef struct yk_cuda_format {
  const char *name;
  yk_weight_format weight_format; /* of the checkpoint */

  /* check - whether part number index contradicts itself (YK_E_INVAL) or can never be multiplied on a GPU
   * (YK_E_UNSUPPORTED). NULL: nothing to check beyond yk_linear_check. linear_create calls it before all others. */
  yk_status (*check)(const yk_linear_part *part, int index, yk_err *err);

  /* takes - whether the row can hold part i of a layer. NULL: every part of its weight_format. */
  bool (*takes)(const yk_linear_spec *spec, int i);

  /* fuse_key - what parts of one GEMM must have in common beside the kind. NULL: nothing. */
  int64_t (*fuse_key)(const yk_linear_part *part);

  /* takes_order - weights whose inputs are in another order than x (yk_linear_part.x_order) too.
   * rounds - load itself rounds weights to 16 bits: such weights are kept (linear_keeps), though a GEMM of 16 bits
   * multiplies them. Of a row that does not, the loader rounds them. */
  bool takes_order, rounds;

  /* Whether load puts weights whose inputs are in another order than x back into the order of x: k of the GEMM is then
   * x_size. Else x is put into the inputs' order before the GEMM. */
  bool undoes_order;

  const yk_cuda_gemm_kind *gemm;

  /* load - repack the slice of the checkpoint's weight as columns first_column .. of the GEMM, whose device weights
   * [weight_bytes] are zeroed before. Waits for nothing: linear_create drains the stream once all is loaded. NULL in
   * builds without CUDA. Not called for an empty slice, nor for resident weights. */
  yk_status (*load)(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *source,
                    int64_t first_column, yk_err *err);
} yk_cuda_format;

/* The table, in format.c: the rows in the order in which they are asked, then NULL. */
extern const yk_cuda_format *const yk_cuda_formats[];

/* Its rows, in format_awq.c, format_w8a8.c, format_bytes.c and format_plain.c. */
extern const yk_cuda_format yk_cuda_format_awq;
extern const yk_cuda_format yk_cuda_format_awq_as_16_bits;
extern const yk_cuda_format yk_cuda_format_w8a8;
extern const yk_cuda_format yk_cuda_format_int8;
extern const yk_cuda_format yk_cuda_format_int8_as_16_bits;
extern const yk_cuda_format yk_cuda_format_fp8;
extern const yk_cuda_format yk_cuda_format_plain;

/* The GEMMs of quantised weights and 16-bit activations, of format_wna16.c. */
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int4;
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8;
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp8;

/* The 16-bit GEMM of format_plain.c: weights act [n, k]. For every format that can be loaded as such. */
extern const yk_cuda_gemm_kind yk_cuda_gemm_16_bits;

#ifdef __cplusplus
}
#endif
#endif
