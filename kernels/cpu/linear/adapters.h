/* adapters.h - low-rank adapters of a linear layer (yk_linear_adapter): memory, products, sums.
 *
 * An adapter's memory has for each part A [rank, x_size], then B in panels [n_panels, rank, PANEL], all float32 and
 * laid out for the largest rank. A row's results depend neither on the other rows nor on the thread. */
#ifndef YK_KERNELS_CPU_LINEAR_ADAPTERS_H
#define YK_KERNELS_CPU_LINEAR_ADAPTERS_H

#include "kernels/cpu/linear/prepared.h"

/* yk_cpu_adapters_lay_out - sets the sizes of a layer whose parts are laid out. */
void yk_cpu_adapters_lay_out(const yk_linear_spec *spec, yk_linear *linear);
int64_t yk_cpu_adapters_bytes(const yk_linear *linear);

/* yk_cpu_adapters_alloc - memory of a layer's adapters; initially every adapter is zero and changes no result. Errors:
 * YK_E_CAPACITY. */
yk_status yk_cpu_adapters_alloc(yk_device *dev, yk_linear *linear, yk_err *err);
void yk_cpu_adapters_free(yk_device *dev, yk_linear *linear);

/* yk_cpu_adapters_row_floats - floats of a row of products: [n_parts, adapter_rank]. */
static inline int64_t yk_cpu_adapters_row_floats(const yk_linear *linear)
{
  return (int64_t)linear->n_parts * linear->adapter_rank;
}

static inline int64_t yk_cpu_adapters_row_bytes(const yk_linear *linear)
{
  return yk_cpu_adapters_row_floats(linear) * (int64_t)sizeof(float);
}

/* yk_cpu_adapters_project - products = scale * A x for each part; x f32 [x_size]. Does nothing for adapter 0. */
void yk_cpu_adapters_project(const yk_cpu_device *cpu, const yk_linear *linear, int32_t adapter, const float *x,
                             float *products);

/* yk_cpu_adapters_add - y += B products for panels first .. end - 1 of a part, y f32 [end - first, PANEL]. Does nothing
 *   for adapter 0. */
void yk_cpu_adapters_add(const yk_cpu_device *cpu, const yk_linear *linear, int part, int32_t adapter,
                         const float *products, int64_t first, int64_t end, float *y);

#endif
