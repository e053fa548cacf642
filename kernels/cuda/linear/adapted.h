/* adapted.h - low-rank adapters of a linear layer on a GPU: memory, and the launches around the layer's GEMMs
 * (kernels/cuda/adapters). No effect on a layer without adapters, nor in a step in which no row has an adapter.
 *
 * A layer without an activation has its results first; products are then added to those of the rows with an adapter. A
 * layer with an activation is multiplied without bias and activation, and the results are rounded to act; the launch
 * that adds the products applies bias and activation to all rows. An epilogue that adds products would round once, but
 * needs a variant of every GEMM. */
#ifndef YK_KERNELS_CUDA_LINEAR_ADAPTED_H
#define YK_KERNELS_CUDA_LINEAR_ADAPTED_H

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/linear/prepared.h"

/* The rows of a forward. */
typedef struct yk_cuda_adapted {
  const yk_linear *linear;
  const int32_t *adapters; /* as in yk_linear_args */
  int64_t n_rows;
  const void *x;      /* device act [n_rows, columns of x] */
  bool is_after_gemm; /* one launch after the GEMM computes A x as well; the GEMM's call has next_reads_x */
} yk_cuda_adapted;

/* yk_cuda_adapted_of - the rows of a forward of the layer. */
yk_cuda_adapted yk_cuda_adapted_of(const yk_linear *linear, const yk_linear_args *args);

static inline bool yk_cuda_adapted_is_any(const yk_cuda_adapted *adapted)
{
  return adapted->adapters && adapted->linear->adapters.n_adapters > 0 && adapted->n_rows > 0;
}

/* yk_cuda_adapted_create - memory for the adapters of a layer that is laid out, initially zero, so that no adapter
 *   changes a result; and linear->unfinished. Errors: YK_E_UNSUPPORTED for float32 results; YK_E_CAPACITY, YK_E_NOMEM,
 *   YK_E_DEVICE. */
yk_status yk_cuda_adapted_create(yk_cuda_device *cuda, const yk_linear_spec *spec, yk_linear *linear, yk_err *err);
void yk_cuda_adapted_destroy(yk_device *dev, yk_linear *linear);

/* yk_cuda_linear_adapt - linear_adapt of the device's table. */
yk_status yk_cuda_linear_adapt(yk_device *dev, yk_linear *linear, int32_t adapter, const yk_linear_adapter *parts,
                               yk_err *err);

/* yk_cuda_adapted_begin - the products A x, before the layer's GEMMs, unless is_after_gemm. */
yk_status yk_cuda_adapted_begin(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, yk_err *err);

/* yk_cuda_adapted_add - y += scale * B (A x) for the rows with an adapter, after the layer's GEMMs. y: act [n_rows,
 *   y_stride]. */
yk_status yk_cuda_adapted_add(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, void *y, int64_t y_stride,
                              yk_err *err);

/* yk_cuda_adapted_finish - y = the activation of (unfinished + bias + scale * B (A x)).
 *   first_row   the block's first row among the forward's
 *   unfinished  the call of linear->unfinished for a block of rows
 *   y           act [unfinished->n_rows, y_stride] */
yk_status yk_cuda_adapted_finish(yk_cuda_device *cuda, const yk_cuda_adapted *adapted, int64_t first_row,
                                 const yk_cuda_gemm_call *unfinished, void *y, int64_t y_stride, yk_err *err);

#endif
