/* mixture.h - mixtures of experts on the CUDA device: the operations of kernels/mixture.h, and their parts
 * (kernels/experts.h) for tests and benchmarks. plan.h decides which kernels run a forward. */
#ifndef YK_KERNELS_CUDA_MOE_MIXTURE_H
#define YK_KERNELS_CUDA_MOE_MIXTURE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_device yk_cuda_device;
typedef struct yk_moe_forward yk_moe_forward;
typedef struct yk_moe_plan yk_moe_plan;

/* yk_cuda_moe_open - loads the kernels and creates their mailboxes when a device is created; close frees the
 *   mailboxes. */
yk_status yk_cuda_moe_open(yk_cuda_device *cuda, yk_err *err);
void yk_cuda_moe_close(yk_cuda_device *cuda);

yk_status yk_cuda_mixture_create(yk_device *dev, const yk_mixture_spec *spec, yk_mixture **out, yk_err *err);
void yk_cuda_mixture_destroy(yk_device *dev, yk_mixture *mixture);
yk_status yk_cuda_mixture_forward(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err);
yk_status yk_cuda_partial_complete(yk_device *dev, const yk_partial *partial, yk_err *err);

/* yk_moe_run - runs a forward as its plan defines. */
yk_status yk_moe_run(yk_moe_forward *f, const yk_moe_plan *plan, yk_err *err);

/* Single parts. */
yk_status yk_cuda_route(yk_device *dev, const yk_route_args *args, yk_err *err);
yk_status yk_cuda_grouped(yk_device *dev, const yk_linear *linear, const yk_grouped_args *args, yk_err *err);
yk_status yk_cuda_combine(yk_device *dev, const yk_combine_args *args, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
