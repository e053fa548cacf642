/* format.h - the CUDA device's table of weight formats.
 *
 * A row of the table defines the storage of a part of a linear layer (kernels/linear.h) in GPU memory: the views of the
 * checkpoint that the row takes, their repacking, and the kind of GEMM that multiplies them. Neighbouring parts whose
 * rows have the same kind of GEMM and the same fuse_key form one GEMM over the columns of both. layout.c and linear.c
 * walk the table and do all work that formats share; no code outside a format's file depends on the format of a part.
 *
 *   linear_bytes     takes -> fuse_key -> weight_bytes (layout.c, in every build)
 *   linear_create    check -> the same -> plan, workspace_bytes, for every GEMM
 *                    -> load, for every part of every matrix; biases
 *   linear_forward   for every GEMM, in blocks of rows: x into the order of the GEMM's inputs, if that differs ->
 *                    quantise, if the kind has it -> forward -> y, or the scratch and from there to y: a copy, or
 *                    (kinds without an epilogue) bias, activation and rounding
 *   linear_sums      the same, but forward writes sums; linear_scale: scale_sums (sums.c)
 *
 *   grouped forward  for the one GEMM that experts' layers have: x of each slot into the order of the GEMM's inputs, if
 *                    that differs -> forward_grouped (grouped.h)
 *
 *   row               takes                                                            kind of GEMM
 *   awq, fp8 inputs;  the same as the next row, of parts with that rounding; not       W4A8: 4 bits in memory, x in
 *   awq, int8 inputs  grouped                                                          8 bits for many rows
 *   awq               AWQ slices of whole words and groups of 32 k or more, no         W4A16: 4 bits in memory
 *                     float32 output; unless as_16_bits
 *   awq as 16 bits    every AWQ slice: each weight is rounded to the activation type   16 bits, cuBLAS
 *   w8a8              int8 slices with quantised inputs, no float32 output, unless     W8A8: x is quantised, integers
 *                     as_16_bits; grouped layers only with scales per token            are multiplied
 *   int8, fp8         slices of whole groups of 32 k or more with float inputs,        W8A16: 8 bits in memory
 *                     no float32 output
 *   fp4               the same, also groups of multiples of 16                         W4A16: 4 bits in memory
 *   int8 to float32   the same of int8 with float32 output, groups of 128 k or one     W8A16: 8 bits in memory
 *   int8 as 16 bits   slices with an order of inputs that the row before does not      16 bits, cuBLAS
 *                     take; all others arrive dequantised, as plain slices
 *   plain             every plain slice, converted to the activation type              16 bits, cuBLAS
 *
 * The first row that takes a part is used. Gate and up of a gated activation must be one GEMM: they use the first pair
 * of rows that take them and fuse. Parts of one GEMM have their inputs in one order. A gate and an up whose orders
 * differ, which no quantiser of both writes, become 16 bits in the order of x, and take more memory than planned.
 *
 * To add a format (an int8 weight, say), write kernels/cuda/linear/format_NAME.c with a `const yk_cuda_format` and,
 * unless an existing kind suffices, a `const yk_cuda_gemm_kind`; declare the row at the end of this header and list it
 * in kernels/cuda/linear/format.c. Kernels of a new kind get a folder next to kernels/cuda/gemm.
 * tests/op/test_op_cuda_format.c is a complete example: int8 weights, multiplied with int8 activations and, if that
 * kind does not take a layer, as 16 bits. */
#ifndef YK_KERNELS_CUDA_LAYOUT_FORMAT_H
#define YK_KERNELS_CUDA_LAYOUT_FORMAT_H

#include <stddef.h>

#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_device yk_cuda_device;
typedef struct yk_cuda_gemm_kind yk_cuda_gemm_kind;

/* Neighbouring parts of a layer that are one GEMM, and its location. */
typedef struct yk_cuda_gemm {
  const yk_cuda_gemm_kind *kind;
  int64_t key; /* the parts' fuse_key */
  int first_part, end_part;
  int64_t k, n;             /* n: columns of weights, gate and up both */
  int64_t first_column;     /* offset of its results within a row of y */
  yk_dtype dtype;           /* type of the activations */
  yk_activation activation; /* gated, columns [0, n/2) are gates, [n/2, n) ups; y has n/2 columns */
  bool has_bias;            /* any part has a bias; the others' are zeros */
  int64_t weights, bias;    /* bytes from the start of a matrix; bias [n] f32, or act: see has_epilogue */
  int64_t x_size;           /* columns of x if the inputs are in another order, else 0; ... */
  int64_t order;            /* ... then bytes from the start of a matrix: int32 [k], the column of each input, or -1 */
  int k_slices;             /* as in yk_linear_spec; 0, or of a kind with takes_slices */
  bool f32_output;          /* y is float32, also of a kind with an epilogue */
  int64_t half_rows;        /* half_tokens of yk_gemm_plans_choose (gemm/dense/dense.h), for kinds with such plans */
  bool is_resident;         /* the weights stay at resident, outside the layer's memory */
  const void *resident;
} yk_cuda_gemm;

static inline int64_t yk_cuda_gemm_columns_of_y(const yk_cuda_gemm *gemm)
{
  return gemm->activation.is_gated ? gemm->n / 2 : gemm->n;
}

/* The activation in the epilogue of a GEMM that has one: a gated activation. A kernel after the GEMM applies the
 * others. */
static inline yk_activation yk_cuda_gemm_activation(const yk_cuda_gemm *gemm)
{
  const yk_activation none = YK_NO_ACTIVATION;
  return gemm->activation.is_gated ? gemm->activation : none;
}

/* Whether the layer has an activation without a gate: a kernel after the GEMM applies such an activation, that of
 * yk_cuda_activate or, for kinds without an epilogue, of yk_cuda_launch_finish. */
static inline bool yk_cuda_gemm_is_activated_after(const yk_cuda_gemm *gemm)
{
  return gemm->activation.kind != YK_ACTIVATION_NONE && !gemm->activation.is_gated;
}

/* One GEMM over a block of rows. */
typedef struct yk_cuda_gemm_call {
  const yk_cuda_gemm *gemm;
  const void *plan;      /* from the kind's plan function; else NULL */
  const void *weights;   /* device: of the matrix */
  const void *bias;      /* device [n]; NULL without one, and for kinds without an epilogue */
  const void *x;         /* device act [n_rows, k] */
  const void *quantised; /* device: output of quantise for these rows; NULL for kinds without */
  void *y;               /* device, of y_dtype [n_rows, y_stride]; NULL: sums is written instead */
  int32_t *sums;         /* device [n_rows, n]: see yk_linear_sums_args */
  yk_dtype y_dtype;
  int64_t y_stride, n_rows;
  bool next_reads_x; /* for a kind with delays_next */
  /* as in yk_linear_args; for a kind with fuses */
  const void *norm_w;
  float norm_eps;
  bool adds;
  float alpha;
} yk_cuda_gemm_call;

/* Work that one kernel does in addition to a grouped GEMM: only work that the plan of a mixture (moe/plan.h) has found
 * the kernel to take. */
typedef struct yk_cuda_grouped_fusion {
  const yk_combine_args *combine; /* the combination of the slots y, written instead of y; NULL: y is written */
  const yk_linear *shared;        /* the layer of a shared expert, with one GEMM; may be NULL */
  const yk_linear_args *shared_args;
} yk_cuda_grouped_fusion;

/* One GEMM of a grouped forward: all matrices, each over its own rows. */
typedef struct yk_cuda_grouped_call {
  const yk_cuda_gemm *gemm;
  const void *weights;  /* device: of matrix 0 */
  const void *bias;     /* device [n] of matrix 0, act if the kind has an epilogue, else f32; or NULL */
  int64_t matrix_bytes; /* distance between matrices */
  int32_t n_matrices;
  int32_t *next_tile; /* device: the layer's counter of output tiles, 0 between forwards (yk_grouped_call) */
  const yk_grouped_args *args;
  bool starts_are_settled; /* args->starts were complete before the preceding kernel could begin */
  const yk_combine_args *combine;
  const yk_cuda_gemm *shared; /* the only GEMM of the fusion's shared layer, and its weights; NULL: none, or several */
  const void *shared_weights;
  const yk_linear_args *shared_args;
} yk_cuda_grouped_call;

/* A kind of GEMM. Functions above the line are arithmetic, which plans also call for weights whose data is not loaded.
 * Functions below the line need the GPU; builds without CUDA leave them NULL. */
struct yk_cuda_gemm_kind {
  const char *name;
  int variant; /* distinguishes kinds that share their functions */

  /* The GEMM itself adds the bias, applies a gated activation and rounds: y is act, whether in place or in the scratch.
   * Rows of such a kind take no layer with float32 output. Otherwise y is x W^T only: float32 [n_rows, n] in the
   * scratch, to which linear.c adds the float32 bias and the epilogue; in place, of y's type.
   * f32_bias: the GEMM adds biases of float32, else of act. With adapters a layer's gated GEMM also runs without its
   * activation (yk_linear.unfinished): y then has the columns in the order of the packed weights, which for a kind with
   * an epilogue are 8 gates, then their 8 ups. */
  bool has_epilogue, f32_bias;

  /* forward keeps the order of additions that the gemm's k_slices require. */
  bool takes_slices;

  /* weight_bytes - bytes of a GEMM's weights, scales included, in one matrix. */
  int64_t (*weight_bytes)(const yk_cuda_gemm *gemm);

  /* uses_resident - whether the layer's one GEMM multiplies the weights that are already on the device. NULL: no. */
  bool (*uses_resident)(const yk_linear_spec *spec);

  /* grouped_staging_bytes - bytes of yk_grouped_args.staging for a grouped forward of max_slots slots. NULL: 0. */
  int64_t (*grouped_staging_bytes)(const yk_cuda_gemm *gemm, int64_t max_slots);

  /* ---- */

  /* If the call's next_reads_x is set, the next kernel on the stream starts only when all results of kernels before
   * this GEMM are complete, x among them: the next kernel may read x before griddepcontrol.wait. */
  bool delays_next;

  /* plan - called once for each GEMM of a layer: returns a block from malloc, read by forward, with the kernel for each
   *   number of rows; freed with the layer. NULL: forward needs none. Errors: YK_E_NOMEM. */
  yk_status (*plan)(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void **plan, yk_err *err);

  /* workspace_bytes - bytes of cuda->gemm_workspace that forwards of 1 to max_tokens rows need. All kinds share the
   * workspace: it is zeroed once, and each forward leaves it zeroed. NULL: 0. */
  size_t (*workspace_bytes)(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int32_t max_tokens);

  /* Quantised activations, for a kind that multiplies integers; both NULL for one that multiplies act.
   * quantised_bytes - bytes for n_rows rows of x with their scales, in the device's scratch after the results.
   * quantise - device to [quantised_bytes] = x act [n_rows, k], before forward on the same rows. maxima: of the whole
   * rows on all ranks, as in yk_linear_sums_args; NULL if x holds whole rows. */
  int64_t (*quantised_bytes)(const yk_cuda_gemm *gemm, int64_t n_rows);
  yk_status (*quantise)(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *to, const void *x, const int32_t *maxima,
                        int64_t n_rows, yk_err *err);

  /* scale_sums - call's y = its integer sums, reduced over ranks, times the scales of x and of the weights, plus bias.
   *   maxima: as for quantise. NULL: the kind has no sums. */
  yk_status (*scale_sums)(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, const int32_t *maxima, yk_err *err);

  /* writes_in_place - whether forward can write the caller's y, with rows y_stride elements apart. NULL: always, and
   *   the scratch has no space for results. */
  bool (*writes_in_place)(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride);

  /* fuses - whether forward takes the call's norm_w or adds. NULL: neither. */
  bool (*fuses)(const yk_cuda_device *cuda, const yk_cuda_gemm_call *call);

  /* forward - asynchronous; may be recorded in a graph. k may be 0 if the rows of the format take such slices.
   * Errors: YK_E_DEVICE. */
  yk_status (*forward)(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err);

  /* forward_grouped - the same for a grouped forward: bias and epilogue included, y in place, rounded to act.
   * call->combine and call->shared are NULL for kinds that fuse neither. NULL: the kind takes no grouped layer.
   * Errors: YK_E_DEVICE. */
  yk_status (*forward_grouped)(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err);
};

/* A row of the table. */
typedef struct yk_cuda_format {
  const char *name;
  yk_weight_format weight_format; /* format in the checkpoint */

  /* check - whether part number index is inconsistent (YK_E_INVAL) or can never be multiplied on a GPU
   *   (YK_E_UNSUPPORTED). NULL: nothing to check beyond yk_linear_check. linear_create calls check before all
   *   others. */
  yk_status (*check)(const yk_linear_part *part, int index, yk_err *err);

  /* takes - whether the row can hold part i of a layer. NULL: every part of its weight_format. */
  bool (*takes)(const yk_linear_spec *spec, int i);

  /* fuse_key - value that parts of one GEMM must have in common, in addition to the kind. NULL: none. */
  int64_t (*fuse_key)(const yk_linear_part *part);

  /* takes_order - the row also takes weights whose inputs are in another order than x (yk_linear_part.x_order).
   *   rounds - load itself rounds weights to 16 bits: linear_keeps returns true for such weights, though a GEMM of 16
   *   bits multiplies them. For a 16-bit row without `rounds`, the loader rounds the weights. */
  bool takes_order, rounds;

  /* Whether load restores the order of x for weights whose inputs are in another order: k of the GEMM is then x_size.
   * Else x is permuted into the inputs' order before the GEMM. */
  bool undoes_order;

  const yk_cuda_gemm_kind *gemm;

  /* load - repacks the slice of the checkpoint's weight to columns first_column .. of the GEMM, whose device weights
   *   [weight_bytes] have been zeroed. Waits for nothing: linear_create drains the stream once all parts are loaded.
   *   NULL in builds without CUDA. Not called for an empty slice, nor for resident weights. */
  yk_status (*load)(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *source,
                    int64_t first_column, yk_err *err);
} yk_cuda_format;

/* The table, in linear/format.c: the rows in the order in which they are tried, then NULL. */
extern const yk_cuda_format *const yk_cuda_formats[];

/* Its rows, in format_w4a8.c, format_awq.c, format_w8a8.c, format_bytes.c and format_plain.c. */
extern const yk_cuda_format yk_cuda_format_awq_fp8_inputs;
extern const yk_cuda_format yk_cuda_format_awq_int8_inputs;
extern const yk_cuda_format yk_cuda_format_awq;
extern const yk_cuda_format yk_cuda_format_awq_as_16_bits;
extern const yk_cuda_format yk_cuda_format_w8a8;
extern const yk_cuda_format yk_cuda_format_int8;
extern const yk_cuda_format yk_cuda_format_int8_to_f32;
extern const yk_cuda_format yk_cuda_format_int8_as_16_bits;
extern const yk_cuda_format yk_cuda_format_fp8;
extern const yk_cuda_format yk_cuda_format_fp4;
extern const yk_cuda_format yk_cuda_format_plain;

/* The GEMMs of quantised weights and 16-bit activations, of format_wna16.c. */
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int4;
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8;
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8_to_f32; /* float32 y, without bias and activation */
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp8;
extern const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp4;

/* The GEMMs of format_w4a8.c: 4 bits, and inputs in 8-bit floats or integers for many rows. */
extern const yk_cuda_gemm_kind yk_cuda_gemm_w4a8_fp8;
extern const yk_cuda_gemm_kind yk_cuda_gemm_w4a8_int8;

/* The 16-bit GEMM of format_plain.c: weights act [n, k]. For every format that can be loaded in that form. */
extern const yk_cuda_gemm_kind yk_cuda_gemm_16_bits;

#ifdef __cplusplus
}
#endif
#endif
