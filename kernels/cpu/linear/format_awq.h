/* format_awq.h - AWQ weights in panels, for the rows of the table of formats that keep this form (format.h has the
 * contracts). */
#ifndef YK_KERNELS_CPU_LINEAR_FORMAT_AWQ_H
#define YK_KERNELS_CPU_LINEAR_FORMAT_AWQ_H

#include "kernels/cpu/linear/format.h"

void yk_cpu_awq_lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part);

void yk_cpu_awq_load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights);

void yk_cpu_awq_multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                               float *acc);

#endif
