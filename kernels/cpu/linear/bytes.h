/* bytes.h - codes of 8 or 4 bits in panels of YK_CPU_PANEL output columns (cpu_simd.h), the last padded with zeros:
 * common parts of the rows of the table of formats that keep codes.
 *
 *   weights  bytes [n_panels, n_lines, PANEL, CHUNK_K], or half of CHUNK_K for 4 bits
 *   scales   f32 [n_panels, n_groups, PANEL]
 *   zeros    f32, the same shape, if the weight has them */
#ifndef YK_KERNELS_CPU_LINEAR_BYTES_H
#define YK_KERNELS_CPU_LINEAR_BYTES_H

#include "kernels/cpu/linear/format.h"

/* yk_cpu_bytes_takes, yk_cpu_bytes_lay_out, yk_cpu_bytes_load - as in yk_cpu_format. takes refuses parts with
 *   as_16_bits: the loader dequantises parts that no row takes. */
bool yk_cpu_bytes_takes(const yk_linear_spec *spec, int i);
void yk_cpu_bytes_lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part);
void yk_cpu_bytes_load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights);

/* yk_cpu_bytes_multiply - multiply_panel for panel i, with the inner loops of a kind of bytes. */
void yk_cpu_bytes_multiply(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                           yk_cpu_byte_row *row, yk_cpu_unpack *unpack, float *acc);

#endif
