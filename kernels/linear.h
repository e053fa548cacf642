/* linear.h - linear layers on a device: y = x W^T (+ bias) on this rank's shard, whatever format the weight has.
 *
 * A linear layer is a list of parts (q, k, v; gate, up). Each part is a slice of one weight of the checkpoint, in a
 * format of its own; their outputs are written side by side into one row of y. How a device stores and multiplies a
 * format is a row of its table of formats: kernels/cpu/linear/format.h, kernels/cuda/linear/format.h. A device may fuse
 * neighbouring parts into one GEMM.
 *
 * Column-parallel layers slice n and keep all of k. Row-parallel layers slice k: the result is then a PARTIAL sum and
 * the caller owes one all-reduce; only rank 0's part may carry the bias.
 *
 * Many matrices of one shape may be one layer (the experts of a mixture): the device keeps them side by side, at one
 * stride. A forward names the matrix that its rows are multiplied with; a mixture multiplies each row with matrices of
 * the row's own (mixture.h). */
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

typedef struct yk_linear yk_linear; /* a device's own prepared form */

enum { YK_MAX_LINEAR_PARTS = 3 };

typedef struct yk_range {
  int64_t begin, end; /* [begin, end) */
} yk_range;

static inline int64_t yk_range_size(yk_range range)
{
  return range.end - range.begin;
}

/* One part: the weight in the checkpoint, and the slice of it that this rank holds. An empty slice is legal. */
typedef struct yk_linear_part {
  yk_weight_view weight;              /* of matrix 0 */
  const yk_weight_view *more_weights; /* [n_matrices - 1] of the matrices after it, alike but for their pointers */
  yk_range k, n;                      /* the same slice of every matrix */
  int64_t group_local; /* where weight.group > 0: rows of the local shard that share a scale, starting at k.begin;
                          divides weight.group, or is the whole local k. Local group j reads the scales of row
                          k.begin + j * group_local. */
  bool use_bias;       /* add weight.bias[n] */
  bool as_16_bits; /* a quantised weight is dequantised when the layer is created, and multiplied as 16-bit floats */
  /* A plain weight whose rows n the device holds already, as act [n, weight.k] (an embedding that is lm_head too): a
   * device may use them in place. They must outlive the layer; linear_bytes looks at is_resident alone. */
  bool is_resident;
  const void *resident;
  /* Inputs that stand in another order than the columns of x, each matrix's in one of its own: local input i of matrix
   * m is multiplied with column x_order[m, i] [n_matrices, size of k], or with 0 where that is -1. x_size: columns of
   * x; 0: in order, as many as inputs, and x_order is NULL. linear_bytes looks at x_size alone. */
  int64_t x_size;
  const int32_t *x_order;
  /* The next three are for whoever repacks a part for a device (runtime/model/repack.h), and unset in what devices get.
   * k_places: of a weight with act order, places that the inputs k take once they are sorted by group, with padding;
   * group_local of them share a scale. 0: they are not to be sorted, and the weight is dequantised.
   * k_is_sorted: k is a range of all the weight's inputs sorted by group, else of the inputs as they are.
   * n_order: each weight's output at each of the part's places [n_matrices, size of n], or NULL: n as it is. */
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
  int32_t n_matrices;       /* at least 1: matrices of this shape side by side, each with all the parts */
  yk_activation activation; /* of y: gated, parts 0 and 1 are gate and up */
  bool f32_output;          /* lm_head: y is float32 whatever the activation type */
  bool is_grouped;          /* a mixture's experts (mixture.h), which linear_forward never multiplies */
  int32_t max_tokens;       /* rows of the largest forward; of experts: slots */
} yk_linear_spec;

/* forward: x act [n_tokens, x_size or k_local]; y [n_tokens, y_stride] act (or f32), written in columns 0 ..
 * n_local - 1, where n_local is the sum of the parts' n (one part's where y is gated). y must not alias x. With an
 * empty k, y is zeros. */
typedef struct yk_linear_args {
  const void *x;
  void *y;
  int32_t n_tokens;
  int32_t matrix;   /* 0 .. n_matrices - 1: the matrix that all rows are multiplied with */
  int64_t y_stride; /* elements from one row of y to the next */
} yk_linear_args;

/* A row-parallel layer whose inputs are quantised gives on any number of ranks, to the bit, what it gives on one: ranks
 * share the row's scale, and add up integers. Instead of a forward there are then three steps, with an exchange of all
 * ranks after the first and the second (runtime/model/row_parallel.h):
 *   maxima: maxima <- x          the largest over ranks is the whole row's
 *   sums:   sums <- x, maxima    what is added up over ranks, exactly
 *   scale:  y <- sums, maxima    on one rank, whose part has the bias; y of the others is zeros
 * For layers of one part without epilogue. Experts' layers, whose rows are slots, have the first step alone
 * (yk_grouped_args.maxima). Without a layer (NULL), on a rank that has none of the inputs, maxima become zeros. */
typedef struct yk_linear_sums_args {
  const void *x; /* act [n_tokens, k_local] */
  int32_t
      *maxima;   /* [n_tokens]: the bits of the largest |x| of a row as float32, which rise with it; NaNs are largest */
  int32_t *sums; /* [n_tokens, n_local] */
  void *y;       /* act [n_tokens, n_local] */
  bool is_zeros; /* scale: y becomes zeros */
  int32_t n_tokens;
} yk_linear_sums_args;

/* yk_linear_check - slices inside their weights, x of one size, orders within x, matrices alike, an epilogue that fits:
 *   all that holds for every format. Errors: YK_E_INVAL, naming the part. Thread: any. Every device calls it first. */
yk_status yk_linear_check(const yk_linear_spec *spec, yk_err *err);

/* yk_linear_check_awq - part number index, an AWQ weight: whole words, and groups that do not straddle. For the AWQ
 *   rows of the devices' tables. Errors: YK_E_INVAL, naming the part. Thread: any. */
yk_status yk_linear_check_awq(const yk_linear_part *part, int index, yk_err *err);

/* yk_linear_check_bytes - part number index, an INT8 or FP8 weight: rows of bytes with float32 scales, and groups that
 *   do not straddle. For the devices' rows that keep bytes. Errors: YK_E_INVAL, naming the part. Thread: any. */
yk_status yk_linear_check_bytes(const yk_linear_part *part, int index, yk_err *err);

/* yk_linear_check_args - rows and matrix within those of the layer. Errors: YK_E_INVAL. Thread: any. */
yk_status yk_linear_check_args(const yk_linear_args *args, int32_t max_tokens, int32_t n_matrices, yk_err *err);

/* yk_linear_has_sums - whether a device that keeps such parts as they are multiplies integers for a layer: it is then
 *   to be forwarded in steps where it is row-parallel. */
static inline bool yk_linear_has_sums(const yk_linear_spec *spec)
{
  const yk_linear_part *part = &spec->parts[0];
  return spec->n_parts == 1 && part->weight.format == YK_WEIGHT_INT8 && part->weight.inputs.kind != YK_INPUTS_FLOAT &&
         !part->as_16_bits;
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
