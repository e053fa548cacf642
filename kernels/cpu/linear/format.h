/* format.h - the CPU device's table of weight formats.
 *
 * A row of the table defines the storage and multiplication of a part of a linear layer (kernels/linear.h). A part uses
 * the first row that has the part's checkpoint format and takes the part; linear.c walks the table and does all work
 * that formats share:
 *
 *   linear_create    check -> takes -> lay_out, for every part
 *                    -> load, for every part of every matrix; biases, as float32
 *   linear_forward   for each block of rows of x, at most YK_CPU_ROW_BLOCK:
 *                      rows to float32 -> in each part's order of inputs -> quantise_row, if a format has it
 *                      for each panel of YK_CPU_PANEL output columns, on the threads of the pool:
 *                        multiply_panel -> bias -> activation -> rounding -> y
 *
 *   row               takes                                            kept as
 *   awq as 16 bits    AWQ slices with as_16_bits                       16 bits: the activation type, or float16
 *   awq, fp8 inputs,  AWQ slices whose inputs are rounded to this     4 bits, in panels
 *   awq, int8 inputs  type
 *   awq               every other AWQ slice                            4 bits, in panels
 *   w8a8              int8 slices with quantised inputs                8 bits, in panels
 *   int8, fp8         every other such slice, in rows of bytes         8 bits, in panels
 *   fp4               every such slice, in rows of bytes               4 bits, in panels
 *   plain             every plain slice                                the checkpoint's type
 *
 * To add a format, write format_NAME.c next to this file with one `const yk_cpu_format`, declare the row at the end of
 * this header and list it in format.c. tests/op/test_op_cpu_format.c is a complete example: int8 weights with a scale
 * for each output, multiplied with int8 activations.
 *
 * Parts are not fused here: each is multiplied separately, and the threads divide the panels of all of them. No format
 * needs a workspace or a plan beyond the fields below. */
#ifndef YK_KERNELS_CPU_LINEAR_FORMAT_H
#define YK_KERNELS_CPU_LINEAR_FORMAT_H

#include "kernels/cpu/cpu_device.h"

enum { YK_CPU_PART_ALIGNMENT_BYTES = 256 };

typedef struct yk_cpu_format yk_cpu_format;

/* A part of a layer, and its location. linear.c sets the first half; lay_out sets the second, whose meaning beyond
 * n_bytes and residence is defined by the format. */
typedef struct yk_cpu_part {
  const yk_cpu_format *format;
  int64_t k, n, n_panels; /* size of the local slice; n_panels: ceil(n / PANEL) */
  int64_t first_column;   /* offset of the part's outputs within a row of y */
  int64_t weights;        /* bytes from the start of a matrix to the part's weights, a multiple of the alignment */
  int64_t bias;           /* likewise, to its biases: f32 [n_panels, PANEL] */
  bool has_bias;
  yk_inputs inputs; /* the weight's inputs */
  int64_t x_order;  /* likewise, to the order of its inputs: i32 [k], if has_x_order */
  bool has_x_order;
  int64_t n_k;       /* k rounded up to whole chunks of CHUNK_K */
  int x_copy;        /* number of the copy of the block's rows, as floats, in the part's order; 0: unpermuted */
  int64_t quantised; /* bytes from the start of the device's buffer to the rows that quantise_row wrote */

  int64_t n_bytes;       /* size of the weights, with scales and other arrays */
  int64_t scales, zeros; /* bytes from the weights to other arrays of the format */
  int64_t group, n_groups;
  int64_t stride;   /* elements from one row of weights to the next */
  yk_dtype dtype;   /* type of floating-point weights */
  bool is_resident; /* the weights are already on the device, at resident, and are used in place */
  const void *resident;
} yk_cpu_part;

/* A block of rows of x, in the form that multiply_panel takes. */
typedef struct yk_cpu_rows {
  const yk_cpu_simd *simd;
  int n_rows;            /* 1 .. YK_CPU_ROW_BLOCK */
  const float *x;        /* [n_rows, x_stride], n_k columns of them: k in whole chunks of CHUNK_K, padded with zeros */
  int64_t x_stride, n_k; /* x_stride is not a power of two: such rows would map to the same cache sets */
  const char *quantised; /* rows of quantise_row, quantised_stride bytes apart; NULL for a format without */
  int64_t quantised_stride;
  yk_cpu_scratch *scratch; /* this thread's scratch */
} yk_cpu_rows;

/* A row of the table. */
struct yk_cpu_format {
  const char *name;
  yk_weight_format weight_format; /* format in the checkpoint */

  /* check - returns YK_E_INVAL if part number index is inconsistent, YK_E_UNSUPPORTED if the device can never multiply
   *   the part. NULL: nothing to check beyond yk_linear_check. Called before all others. */
  yk_status (*check)(const yk_linear_part *part, int index, yk_err *err);

  /* takes - whether the row can hold part i of a layer. NULL: every part of its weight_format. */
  bool (*takes)(const yk_linear_spec *spec, int i);

  /* lay_out - sets the second half of a part. dtype: the activations'. Arithmetic only: plans call it too, for weights
   *   whose data is not loaded. */
  void (*lay_out)(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part);

  /* load - repacks the slice of the checkpoint's weight into weights [part->n_bytes], which have been zeroed. Runs on
   *   the pool by output columns, as forward does, so that each thread first touches the memory that it will read. Not
   *   called for an empty slice, nor for resident weights. */
  void (*load)(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights);

  /* Quantised activations; both NULL for a format that multiplies the floats of x.
   * quantised_row_bytes - bytes of a row of k inputs, with its scale. The buffer for a block of rows belongs to the
   * device; parts of one format with equal inputs share a quantised row.
   * quantise_row - to [quantised_row_bytes] = x f32 [k]. Called on any thread of the pool, once per forward and row.
   * largest: of the whole row on all ranks, as in yk_linear_sums_args; NULL if x holds the whole row. */
  int64_t (*quantised_row_bytes)(int64_t k);
  void (*quantise_row)(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest);

  /* Integer sums that ranks add; both NULL for a format that multiplies floats. See yk_linear_sums_args.
   * sum_panel - as multiply_panel, in integers: sums [n_rows, PANEL].
   * scale_sums - y [n] = the values of sums [n], for outputs first .. first + n - 1 of a row. */
  void (*sum_panel)(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, int32_t *sums);
  void (*scale_sums)(const yk_cpu_part *part, const char *weights, const int32_t *sums, int32_t largest, int64_t first,
                     int64_t n, float *y);

  /* multiply_panel - acc[row * YK_CPU_BLOCK_COLUMNS + j] = row of x times column i * PANEL + j of the part, for all
   *   PANEL columns j; those at part->n and beyond may be any finite value. A row's result may depend neither on the
   *   other rows nor on the thread. weights: the output of load, or part->resident. */
  void (*multiply_panel)(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc);
};

/* The table, in format.c: the rows in the order in which they are tried, then NULL. */
extern const yk_cpu_format *const yk_cpu_formats[];

/* The table's rows, each in the file of its name unless noted. */
extern const yk_cpu_format yk_cpu_format_awq_as_16_bits;
extern const yk_cpu_format yk_cpu_format_awq_fp8_inputs, yk_cpu_format_awq_int8_inputs; /* format_w4a8.c */
extern const yk_cpu_format yk_cpu_format_awq;
extern const yk_cpu_format yk_cpu_format_w8a8;
extern const yk_cpu_format yk_cpu_format_int8;
extern const yk_cpu_format yk_cpu_format_fp8;
extern const yk_cpu_format yk_cpu_format_fp4;
extern const yk_cpu_format yk_cpu_format_plain;

/* yk_cpu_largest - the largest |x[0 .. n - 1]|, in the form of yk_linear_sums_args.maxima. */
static inline int32_t yk_cpu_largest(const float *x, int64_t n)
{
  int32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t magnitude = (int32_t)(yk_f32_bits(x[i]) & 0x7FFFFFFFu);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/* yk_cpu_multiply_strips - multiply_panel for a panel that unpack converts to floats. In strips.c. */
void yk_cpu_multiply_strips(const yk_cpu_rows *rows, yk_cpu_unpack *unpack, const void *panel, float *acc);

/* yk_cpu_plain_multiply_panel - multiply_panel for weights dtype [n, stride]: for every format that can be loaded in
 *   that form. */
void yk_cpu_plain_multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                                 float *acc);

#endif
