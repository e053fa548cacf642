/* op_parts.h - the separate parts of a device's mixtures (kernels/experts.h). */
#ifndef YK_TESTS_OP_PARTS_H
#define YK_TESTS_OP_PARTS_H

#include "kernels/cpu/cpu_device.h"
#include "op/op_harness.h"
#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/moe/mixture.h"
#endif

typedef struct op_parts {
  yk_status (*route)(yk_device *dev, const yk_route_args *args, yk_err *err);
  yk_status (*grouped)(yk_device *dev, const yk_linear *linear, const yk_grouped_args *args, yk_err *err);
  yk_status (*combine)(yk_device *dev, const yk_combine_args *args, yk_err *err);
  int64_t (*staging_bytes)(const yk_linear_spec *spec); /* of a grouped forward; NULL: none */
} op_parts;

static inline op_parts op_parts_of(const yk_device *dev)
{
#ifdef YOKE_HAVE_CUDA
  if (strcmp(dev->ops->name, "cuda") == 0)
    return (op_parts){yk_cuda_route, yk_cuda_grouped, yk_cuda_combine, yk_cuda_linear_staging_bytes};
#endif
  (void)dev;
  return (op_parts){yk_cpu_route, yk_cpu_grouped_forward, yk_cpu_combine, NULL};
}

/* Staging memory of a grouped forward, or NULL. */
static inline void *op_staging_new(yk_device *dev, const yk_linear_spec *spec)
{
  const op_parts parts = op_parts_of(dev);
  void *staging = NULL;
  int64_t n_bytes = parts.staging_bytes ? parts.staging_bytes(spec) : 0;
  if (n_bytes > 0) op_ok(dev->ops->alloc(dev, (size_t)n_bytes, &staging, &err));
  return staging;
}

#endif
