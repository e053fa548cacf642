/* slices.h - layers of the CPU device whose inputs are divided into slices (yk_linear_spec.k_slices): a layer for each
 * slice, and the tree that adds their results. */
#ifndef YK_KERNELS_CPU_LINEAR_SLICES_H
#define YK_KERNELS_CPU_LINEAR_SLICES_H

#include "kernels/cpu/cpu_device.h"

typedef struct yk_cpu_slices yk_cpu_slices;

/* yk_cpu_slices_are_of - whether a layer has several slices. */
static inline bool yk_cpu_slices_are_of(const yk_linear_spec *spec)
{
  return spec->k_slices > 1;
}

/* yk_cpu_slice_of - the layer of slice number i: its sums in float32, without bias and activation. */
yk_linear_spec yk_cpu_slice_of(const yk_linear_spec *spec, int i);

/* yk_cpu_slices_bytes - memory of a layer in addition to the layers of its slices and to linear_shared_bytes. */
int64_t yk_cpu_slices_bytes(const yk_linear_spec *spec);

/* yk_cpu_slices_create - the slices of a layer that yk_linear_check accepts. The caller destroys *out, also after an
 *   error, and reserves yk_cpu_linear_shared_bytes in yk_cpu_device.slices. Errors: those of linear_create. */
yk_status yk_cpu_slices_create(yk_device *dev, const yk_linear_spec *spec, yk_cpu_slices **out, yk_err *err);
void yk_cpu_slices_destroy(yk_device *dev, yk_cpu_slices *slices);

/* yk_cpu_slices_forward - linear_forward; args have been checked. */
yk_status yk_cpu_slices_forward(yk_device *dev, const yk_cpu_slices *slices, const yk_linear_args *args, yk_err *err);

#endif
