/* prepared.h - a linear layer of the CPU device, as linear.c prepares and multiplies it. */
#ifndef YK_KERNELS_CPU_LINEAR_PREPARED_H
#define YK_KERNELS_CPU_LINEAR_PREPARED_H

#include "kernels/cpu/linear/format.h"

enum { YK_CPU_MIN_THREAD_INPUTS = 1 << 14 }; /* below which a thread costs more than it saves */

struct yk_linear {
  yk_cpu_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  int32_t n_matrices;
  yk_epilogue epilogue;
  bool f32_output;
  int32_t max_tokens;
  int64_t x_size;          /* columns of x */
  int64_t n_k, x_stride;   /* as in yk_cpu_rows, of the part with the most inputs */
  int n_x_copies;          /* of a block of rows as floats, in different orders */
  int64_t quantised_bytes; /* of a block of rows, for all formats that quantise */
  int64_t matrix_bytes;    /* from a matrix, with all its parts, to the next */
  char *memory;            /* [n_matrices, matrix_bytes] */
  yk_cpu_chunk *chunk;
};

#endif
