/* cpu_simd.h - the inner loops of the CPU device, once for each instruction set, chosen when a device is created.
 *
 * GEMMs: every output element is YK_CPU_LANES sums. Element k of the row adds x[k] * w[k] to sum number k modulo
 * YK_CPU_LANES, in rising order and with one rounding if the set can fuse; at the end the sums are added pairwise, the
 * far half to the near half. That order is the same for any number of rows, tiles and threads, which makes a row's
 * result independent of its batch. (Instruction sets differ in rounding: the portable one does not fuse.) Rows of x and
 * of unpacked weights are padded with zeros to whole chunks of YK_CPU_CHUNK_K. */
#ifndef YK_KERNELS_CPU_SIMD_H
#define YK_KERNELS_CPU_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "kernels/activation.h"
#include "kernels/kv_format.h"

enum {
  YK_CPU_LANES = 16,    /* sums of one output element */
  YK_CPU_NIBBLES = 8,   /* weights of one packed AWQ word */
  YK_CPU_CHUNK_K = 128, /* k of one line of packed AWQ weights: LANES words of NIBBLES */
  YK_CPU_PANEL = 8,     /* output columns computed together for one row */
  YK_CPU_INT8_K = 64,   /* inputs of 8-bit rows and columns are padded with zeros to a multiple of this */
  YK_CPU_STRIP = 4,     /* columns of a strip: divides YK_CPU_PANEL */
  YK_CPU_STRIP_K = 1024 /* maximum inputs of a strip: the strip and a few rows of x stay in the L1 cache */
};

/* One panel of an AWQ weight: line (k / 128, column) holds 128 k of a column, element k of them in word k % 16, the
 * lowest k in the lowest nibble: 64 bytes, in the order of use.
 * w = scale * (q - zero), exact if scales come from 16-bit floats. */
typedef struct yk_cpu_awq_panel {
  const uint32_t *words; /* [n_lines, YK_CPU_PANEL, YK_CPU_LANES] */
  const float *scales;   /* [n_groups, YK_CPU_PANEL] */
  const uint8_t *zeros;  /* [n_groups, YK_CPU_PANEL] */
  int64_t n_lines;       /* ceil(k / 128) */
  int64_t n_groups;
  int64_t group; /* rows of one group (the last may be short) */
} yk_cpu_awq_panel;

/* One panel of a plain weight in its checkpoint's layout: column i is the k elements of dtype from w + i * stride. */
typedef struct yk_cpu_plain_panel {
  const void *w;
  yk_dtype dtype;
  int64_t k, stride; /* stride in elements */
  int n_columns;     /* 1 .. YK_CPU_PANEL; the outputs of the other columns become 0 */
} yk_cpu_plain_panel;

/* One panel of an 8-bit weight: line (k / 128, column) holds 128 k of a column in order: 128 bytes. A line of 4-bit
 * floats has 64 bytes, as one of yk_cpu_awq_panel.
 * w = scale * (q - zero), or for floats scale * f, with one rounding each. */
typedef struct yk_cpu_byte_panel {
  const uint8_t *bytes; /* [n_lines, YK_CPU_PANEL, YK_CPU_CHUNK_K], 4 bits: YK_CPU_CHUNK_K / 2 */
  const float *scales;  /* [n_groups, YK_CPU_PANEL] */
  const float *zeros;   /* [n_groups, YK_CPU_PANEL], or NULL: all are 0 */
  int64_t n_lines;      /* ceil(k / 128) */
  int64_t n_groups;
  int64_t group; /* rows of one group (the last may be short) */
} yk_cpu_byte_panel;

typedef bool yk_cpu_byte_row(float *y, const float *x, const yk_cpu_byte_panel *panel);

/* w [n_k / LANES, STRIP, LANES] = inputs k .. k + n_k - 1 of columns first .. first + STRIP - 1 of a panel, of the
 * function's panel type, as floats. first is a multiple of STRIP; k and n_k are whole chunks. */
typedef void yk_cpu_unpack(float *w, const void *panel, int first, int64_t k, int64_t n_k);

/* Rows of x times a strip of weights. The inputs of a row may be split into several products, in rising order. */
typedef struct yk_cpu_product {
  float *y;       /* the last product sets y[row * y_stride + column] */
  const float *x; /* rows [n_k] that are x_stride apart */
  const float *w; /* [n_k / LANES, STRIP, LANES] */
  float *sums;    /* [n_rows, STRIP, LANES], kept by the caller from one product to the next */
  int64_t y_stride, x_stride, n_k;
  int n_rows;
  bool is_first, is_last;
} yk_cpu_product;

/* One panel of 8-bit integers. */
typedef struct yk_cpu_int8_panel {
  const int8_t *w;     /* [n_k / INT8_K, YK_CPU_PANEL, INT8_K] */
  const int32_t *sums; /* [YK_CPU_PANEL] of each column's weights */
  int64_t n_k;         /* k in whole INT8_Ks, at most 2^16 */
} yk_cpu_int8_panel;

/* K or V of one token and one head in an 8-bit cache: kernels/kv_cache.h. */
typedef struct yk_cpu_kv_row {
  yk_kv_format format; /* INT8 or FP8 */
  const uint8_t *codes;
  float scale;                     /* the token's */
  const float *channels, *offsets; /* static scales and offsets of the head; both NULL: none */
} yk_cpu_kv_row;

typedef struct yk_cpu_simd {
  const char *name;

  /* Conversion of n elements, rounded to nearest even. */
  void (*to_f32)(float *dst, yk_dtype dtype, const void *src, size_t n);
  void (*from_f32)(void *dst, yk_dtype dtype, const float *src, size_t n);

  float (*sum_squares)(const float *x, size_t n);

  /* dots[i] = x . rows[i] for rows [n_rows, n] */
  void (*dot_rows)(float *dots, const float *x, const float *rows, int n_rows, size_t n);
  /* acc = acc * acc_scale + sum over i, rising, of weights[i] * rows[i]; acc [n], rows [n_rows, n] */
  void (*weighted_sum)(float *acc, float acc_scale, const float *weights, const float *rows, int n_rows, size_t n);

  /* For both functions, n is a multiple of 16, which every vector length divides. An element's result does not depend
   * on its position.
   * softmax - *maximum = the largest of *maximum and all x; then x = exp(x - *maximum), at least 2^-126. Returns the
   * sum of x, in a fixed order.
   * activate - gate = f(gate) * up, or f(gate) for a kind without a gate, with up NULL: see kernels/activation.h. */
  float (*softmax)(float *x, size_t n, float *maximum);
  void (*activate)(const yk_activation *activation, float *gate, const float *up, size_t n);

  /* y[PANEL] = x times a panel, for one row x [whole chunks]. awq_row and the byte rows return false and compute
   * nothing if a group ends between multiples of LANES: the caller must unpack such a panel. */
  bool (*awq_row)(float *y, const float *x, const yk_cpu_awq_panel *panel);
  yk_cpu_byte_row *int8_row, *fp8_row, *fp4_row;
  void (*plain_row)(float *y, const float *x, const yk_cpu_plain_panel *panel);

  yk_cpu_unpack *awq_unpack;                            /* panel: a yk_cpu_awq_panel */
  yk_cpu_unpack *int8_unpack, *fp8_unpack, *fp4_unpack; /* panel: a yk_cpu_byte_panel */
  yk_cpu_unpack *plain_unpack;                          /* panel: a yk_cpu_plain_panel */

  void (*multiply)(const yk_cpu_product *product);

  /* y[row * y_stride + column] = x times all columns of a panel, for n_rows rows x [n_k] that are x_stride apart. The
   * results are the same for every instruction set. */
  void (*multiply_int8)(int32_t *y, int64_t y_stride, const int8_t *x, int64_t x_stride, int n_rows,
                        const yk_cpu_int8_panel *panel);

  /* dst[n] = the numbers of a row of codes. The results are the same for every instruction set. */
  void (*kv_dequantise)(float *dst, const yk_cpu_kv_row *row, size_t n);
} yk_cpu_simd;

/* yk_cpu_simd_best - the fastest instruction set that this processor supports. Never NULL. */
const yk_cpu_simd *yk_cpu_simd_best(void);

/* yk_cpu_simd_find - the instruction set of that name ("portable", "avx2", "avx512", "avx512vnni": avx512 with faster
 *   products of 8-bit integers), or NULL if the processor lacks it. */
const yk_cpu_simd *yk_cpu_simd_find(const char *name);

/* Each is in a source file compiled for its instructions. NULL if the compiler does not target x86-64. */
const yk_cpu_simd *yk_cpu_simd_portable(void);
const yk_cpu_simd *yk_cpu_simd_avx2(void);
const yk_cpu_simd *yk_cpu_simd_avx512(void);
const yk_cpu_simd *yk_cpu_simd_avx512vnni(void);

/* multiply_int8 of avx512vnni, in cpu_simd_vnni.c. */
void yk_cpu_vnni_multiply_int8(int32_t *y, int64_t y_stride, const int8_t *x, int64_t x_stride, int n_rows,
                               const yk_cpu_int8_panel *panel);

#endif
