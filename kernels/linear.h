/* linear.h - linear layers on a device: y = x W^T (+ bias) on this rank's shard, for every weight format.
 *
 * A linear layer is a list of parts (q, k, v; gate, up). Each part is a slice of one weight of the checkpoint, in its
 * own format; the outputs of the parts are concatenated in one row of y. The storage and multiplication of a format is
 * a row of the device's table of formats: kernels/cpu/linear/format.h, kernels/cuda/layout/format.h. A device may fuse
 * neighbouring parts into one GEMM.
 *
 * Column-parallel layers slice n and keep all of k. Row-parallel layers slice k: the result is then a PARTIAL sum and
 * the caller must all-reduce it; only rank 0's part may have the bias.
 *
 * A layer may hold many matrices of one shape (the experts of a mixture): the device stores them at a fixed stride. A
 * forward names the matrix for all its rows; in a mixture each row has its own matrices (mixture.h). */
#ifndef YK_KERNELS_LINEAR_H
#define YK_KERNELS_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_linear yk_linear; /* a device's prepared form of a layer */

enum { YK_MAX_LINEAR_PARTS = 6 };

/* Slices of K with a fixed order of additions: at most MOST, each of a multiple of UNIT inputs if there are several. */
enum { YK_MOST_K_SLICES = 8, YK_K_SLICE_UNIT = 128 };

/* yk_linear_k_slices - the largest power of two of equal slices that k inputs can be divided into. Thread: any. */
static inline int yk_linear_k_slices(int64_t k)
{
  int n = YK_MOST_K_SLICES;
  while (n > 1 && k % (n * (int64_t)YK_K_SLICE_UNIT) != 0) n /= 2;
  return n;
}

typedef struct yk_range {
  int64_t begin, end; /* [begin, end) */
} yk_range;

static inline int64_t yk_range_size(yk_range range)
{
  return range.end - range.begin;
}

/* One part: the weight in the checkpoint, and the slice of it that this rank holds. An empty slice is legal. */
typedef struct yk_linear_part {
  yk_weight_view weight;              /* weight of matrix 0 */
  const yk_weight_view *more_weights; /* [n_matrices - 1] of the following matrices, equal but for their pointers */
  yk_range k, n;                      /* the same slice of every matrix */
  /* If weight.group > 0: number of rows of the local shard that share a scale, counted from k.begin; divides
   * weight.group, or is the whole local k. Local group j reads the scales of row k.begin + j * group_local. */
  int64_t group_local;
  bool use_bias;           /* add weight.bias[n] */
  yk_inputs_kind rounding; /* FP8, INT8: inputs may be rounded, see yk_linear_rounds_inputs; FLOAT: they are not */
  bool as_16_bits; /* a quantised weight is dequantised when the layer is created, and multiplied as 16-bit floats */
  /* A plain weight whose rows n are already in device memory as act [n, weight.k] (an embedding that is also lm_head):
   * a device may use them in place. They must outlive the layer; linear_bytes reads only is_resident. */
  bool is_resident;
  const void *resident;
  /* Inputs in another order than the columns of x, separately for each matrix: local input i of matrix m is multiplied
   * with column x_order[m, i] [n_matrices, size of k], or with 0 if that is -1. x_size: columns of x. If x_size is 0,
   * inputs are in order, x has as many columns as inputs, and x_order is NULL. linear_bytes reads only x_size. */
  int64_t x_size;
  const int32_t *x_order;
  /* The next four are input of the repacking of a part for a device (runtime/model/repack.h), and unset in the parts
   * that devices receive.
   * as_int8: a plain weight becomes 8-bit integers with one scale for each output.
   * k_places: for a weight with act order, the number of positions that the inputs k take when sorted by group, with
   * padding; group_local of them share a scale. 0: the inputs are not sorted, and the weight is dequantised.
   * k_is_sorted: k is a range of all the weight's inputs sorted by group, else of the inputs in their own order.
   * n_order: the weight's output at each position of the part [n_matrices, size of n], or NULL: the weight's order. */
  bool as_int8;
  int64_t k_places;
  bool k_is_sorted;
  const int32_t *n_order;
} yk_linear_part;

/* yk_linear_x_size - columns of the x that a part is multiplied with. */
static inline int64_t yk_linear_x_size(const yk_linear_part *part)
{
  return part->x_size ? part->x_size : yk_range_size(part->k);
}

typedef struct yk_linear_spec {
  yk_linear_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  int32_t n_matrices;       /* at least 1: number of matrices of this shape, each with all the parts */
  yk_activation activation; /* activation of y; if gated, parts 0 and 1 are gate and up */
  bool f32_output;          /* lm_head: y is float32 for any activation type */
  bool is_grouped;          /* a mixture's experts (mixture.h), not for linear_forward */
  int32_t max_tokens;       /* rows of the largest forward; for experts, slots */
  /* 0: the device adds in any order. Else a row of y has the same bits for any other rows: K is k_slices equal slices,
   * 1, 2, 4 or 8; a slice's sum adds its inputs in one order that depends on the weights' format alone, and the sums of
   * slices are added in float32 in a balanced binary tree. With f32_output y is the tree's sum: if ranks have 1 / n of
   * the inputs and of the slices, the ranks' sums are the nodes of the tree over all slices. Not for adapters, inputs
   * in another order, quantised inputs and experts; GPUs take 4-bit integers and plain weights. */
  int k_slices;
  /* Low-rank adapters that the layer may have, and their largest rank; 0: none. Only layers of one matrix have
   * them. */
  int32_t n_adapters, adapter_rank;
} yk_linear_spec;

/* An adapter's matrices for one part of a layer: y += scale * B (A x) for the part's outputs. The product is added in
 * float32 before the activation, and the sum is rounded once; where ranks add integers (yk_linear_sums_args), and on
 * GPUs, it is added to the rounded result. If x and A are slices of a row-parallel layer, the product is this rank's
 * partial sum like the rest of y. */
typedef struct yk_linear_adapter {
  const float *a; /* host [rank, columns of x] */
  const float *b; /* host [rank, outputs of the part]: B transposed */
  int32_t rank;   /* 0: the adapter does not change the part */
  float scale;
} yk_linear_adapter;

/* forward: x act [n_tokens, x_size or k_local]; y [n_tokens, y_stride] act (or f32), written in columns 0 ..
 * n_local - 1, where n_local is the sum of the parts' n (one part's if y is gated). y must not alias x. With an empty
 * k, y is zeros. */
typedef struct yk_linear_args {
  const void *x;
  void *y;
  int32_t n_tokens;
  int32_t matrix;   /* 0 .. n_matrices - 1: the matrix that all rows are multiplied with */
  int64_t y_stride; /* elements between rows of y */
  /* device [n_tokens] adapter of each row, 1 .. n_adapters, or 0: none. A row without an adapter has the same bits as
   * if no row had an adapter, except on GPUs in a layer with an activation, whose inputs are then rounded. NULL: no row
   * has an adapter, and the forward does no work for adapters. */
  const int32_t *adapters;
  /* The next two only if the device's linear_fuses (device.h) returned true for these arguments.
   * norm_w act [columns of x], or NULL: rms_norm(x, norm_w) with norm_eps takes the place of x, which stays as it is.
   * adds: y, act [n_tokens, n_local], becomes y + alpha * result, rounded, where the result is rounded first. */
  const void *norm_w;
  float norm_eps;
  bool adds;
  float alpha;
} yk_linear_args;

/* The steps of a row-parallel layer with quantised inputs. The result has the same bits on any number of ranks: ranks
 * share the scale of a row, and add integers. Three steps replace the forward, with an all-reduce after the first and
 * the second (runtime/model/row_parallel.h):
 *   maxima: maxima <- x          all-reduce by maximum: the maxima of whole rows
 *   sums:   sums <- x, maxima    all-reduce by sum: exact, in integers
 *   scale:  y <- sums, maxima    on one rank, whose part has the bias; the other ranks' y is zeros
 * For layers of one part without activation. Experts' layers, whose rows are slots, use only the first step
 * (yk_grouped_args.maxima). Without a layer (NULL), on a rank without inputs, maxima are set to zeros. */
typedef struct yk_linear_sums_args {
  const void *x; /* act [n_tokens, k_local] */
  /* [n_tokens]: the bits of the largest |x| of a row as float32, which order as the values do; NaNs are largest */
  int32_t *maxima;
  int32_t *sums; /* [n_tokens, n_local] */
  void *y;       /* act [n_tokens, n_local] */
  bool is_zeros; /* scale: sets y to zeros */
  int32_t n_tokens;
  const int32_t *adapters; /* scale: as in yk_linear_args, added on every rank */
} yk_linear_sums_args;

/* yk_linear_check - checks all that holds for every format: slices inside their weights, parts with equal x_size,
 *   x_order within x, matrices of one layout, a valid activation. Errors: YK_E_INVAL, naming the part. Thread: any.
 *   Every device calls this function first. */
yk_status yk_linear_check(const yk_linear_spec *spec, yk_err *err);

/* yk_linear_check_awq - checks part number index, an AWQ weight: whole words, and no local group that spans two groups
 *   of the weight. Called by the AWQ rows of the devices' tables of formats. Errors: YK_E_INVAL, naming the part.
 *   Thread: any. */
yk_status yk_linear_check_awq(const yk_linear_part *part, int index, yk_err *err);

/* yk_linear_check_bytes - checks part number index, an INT8 or FP8 weight: rows of bytes with float32 scales, and no
 *   local group that spans two groups of the weight. Called by the rows that store bytes in the devices' tables of
 *   formats. Errors: YK_E_INVAL, naming the part. Thread: any. */
yk_status yk_linear_check_bytes(const yk_linear_part *part, int index, yk_err *err);

/* yk_linear_check_args - checks that rows and matrix are within those of the layer. Errors: YK_E_INVAL. Thread: any. */
yk_status yk_linear_check_args(const yk_linear_args *args, int32_t max_tokens, int32_t n_matrices, yk_err *err);

/* yk_linear_has_sums - whether a device that keeps such parts in their format multiplies integers for the layer: if
 *   row-parallel, the layer must then run in steps. */
static inline bool yk_linear_has_sums(const yk_linear_spec *spec)
{
  const yk_linear_part *part = &spec->parts[0];
  return spec->n_parts == 1 && part->weight.format == YK_WEIGHT_INT8 && part->weight.inputs.kind != YK_INPUTS_FLOAT &&
         !part->as_16_bits;
}

/* yk_linear_rounds_inputs - whether part i's inputs are rounded to 8 bits, each row with its own scale, to nearest,
 *   ties to even, where L is the largest |x| of the local row:
 *   FP8    x = L / 448 * e4m3(x * (448 / L)). Source: compressed_tensors, quantization/lifecycle/forward.py
 *   INT8   x = L / 127 * integer(x * (127 / L)). Source: vllm, csrc/quantization/w8a8/int8/scaled_quant.cu
 *   The sources take the whole row: a rank's scale in a row-parallel layer is the same or smaller.
 *   Rows whose largest |x| is below YK_LEAST_ROUNDED_INPUT are zeros; a row with a NaN or an infinity gives NaNs. A
 *   device may keep x where rounding would not make it faster: GPUs do so for few rows
 *   (kernels/cuda/linear/format_w4a8.c), the CPU device always rounds. For layers of 4-bit integers in groups of 32
 *   inputs and more; not for experts and float32 results. */
#define YK_LEAST_ROUNDED_INPUT 0x1p-100f /* 448 / x is finite */
static inline bool yk_linear_rounds_inputs(const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  const int64_t k = yk_range_size(part->k);
  return part->rounding != YK_INPUTS_FLOAT && part->weight.format == YK_WEIGHT_AWQ && !part->as_16_bits &&
         !spec->is_grouped && !spec->f32_output && k > 0 && k % 32 == 0 && yk_range_size(part->n) % 8 == 0 &&
         (part->group_local >= k || part->group_local % 32 == 0);
}

/* yk_linear_part_of - a part with the weight and the orders of one of its matrices. */
static inline yk_linear_part yk_linear_part_of(const yk_linear_part *part, int32_t matrix)
{
  yk_linear_part of_matrix = *part;
  if (matrix > 0) of_matrix.weight = part->more_weights[matrix - 1];
  if (part->x_order) of_matrix.x_order = part->x_order + matrix * yk_range_size(part->k);
  if (part->n_order) of_matrix.n_order = part->n_order + matrix * yk_range_size(part->n);
  return of_matrix;
}

#ifdef __cplusplus
}
#endif
#endif
