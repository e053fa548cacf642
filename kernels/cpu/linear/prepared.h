/* prepared.h - a linear layer of the CPU device, prepared by linear.c and multiplied by multiply.c. */
#ifndef YK_KERNELS_CPU_LINEAR_PREPARED_H
#define YK_KERNELS_CPU_LINEAR_PREPARED_H

#include "kernels/cpu/linear/format.h"

enum { YK_CPU_MIN_THREAD_INPUTS = 1 << 14 }; /* below which a thread costs more than it saves */

struct yk_linear {
  yk_cpu_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  int32_t n_matrices;
  yk_activation activation;
  bool f32_output, is_grouped;
  int32_t max_tokens;
  int64_t x_size;          /* columns of x */
  int64_t n_k, x_stride;   /* as in yk_cpu_rows, of the part with the most inputs */
  int row_block;           /* maximum rows that are multiplied at a time; up to YK_CPU_ROW_BLOCK */
  int n_x_copies;          /* copies of a block of rows as floats, in different orders */
  int64_t quantised_bytes; /* size for a block of rows, for all formats that quantise */
  int64_t matrix_bytes;    /* distance between matrices, each with all its parts */
  char *memory;            /* [n_matrices, matrix_bytes] */
  yk_cpu_chunk *chunk;
  int32_t n_adapters, adapter_rank; /* as in yk_linear_spec */
  int64_t adapter_floats;           /* distance between adapters, each with the matrices of all parts (adapters.h) */
  float *adapter_memory;            /* [n_adapters, adapter_floats]; NULL without adapters */
  struct yk_cpu_adapter *adapters;  /* [n_adapters, n_parts] */
  struct yk_cpu_slices *slices;     /* slices.h; NULL: one slice. Else only n_matrices and max_tokens are set besides */
};

/* yk_cpu_quantised_row_bytes - distance between quantised rows of a part. */
int64_t yk_cpu_quantised_row_bytes(const yk_cpu_part *part);

/* yk_cpu_first_of_rows - the first of the layer's parts that shares its quantised rows with part i. */
int yk_cpu_first_of_rows(const yk_linear *linear, int i);

#endif
