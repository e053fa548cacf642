/* layout.h - the contents and offsets of a model in a GPU's memory. Pure arithmetic, also compiled without CUDA, so
 * that any machine can plan memory for GPUs. */
#ifndef YK_KERNELS_CUDA_LAYOUT_LAYOUT_H
#define YK_KERNELS_CUDA_LAYOUT_LAYOUT_H

#include "kernels/cuda/layout/format.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { YK_CUDA_QUANTISED_BYTES = 64 << 20 /* maximum of quantised inputs of a block of rows */ };

/* The GEMMs of a linear layer, in the order of its parts. */
typedef struct yk_cuda_linear_layout {
  const yk_cuda_format *formats[YK_MAX_LINEAR_PARTS]; /* format of each part */
  yk_cuda_gemm gemms[YK_MAX_LINEAR_PARTS];
  int n_gemms;
  int64_t matrix_bytes; /* distance between matrices, each with all its parts */
} yk_cuda_linear_layout;

/* yk_cuda_linear_lay_out - the GEMMs of a layer and their offsets in a matrix. dtype: the activations'.
 *   Errors: YK_E_UNSUPPORTED, naming a part that no row of the table takes, or a gate and up that no GEMM takes
 *   together. */
yk_status yk_cuda_linear_lay_out(const yk_linear_spec *spec, yk_dtype dtype, yk_cuda_linear_layout *out, yk_err *err);

/* yk_cuda_linear_bytes - linear_bytes of the device's table; 0 for a layer that cannot be laid out. */
int64_t yk_cuda_linear_bytes(const yk_linear_spec *spec);

/* yk_cuda_linear_keeps - linear_keeps of the device's table: whether a row multiplies the part in its format, or itself
 *   rounds the part to 16 bits. A gate and an up that no GEMM takes together become 16-bit floats. */
bool yk_cuda_linear_keeps(const yk_linear_spec *spec, int i);

/* yk_cuda_linear_divides - linear_divides of the device's table. */
bool yk_cuda_linear_divides(const yk_linear_spec *spec, int i);

/* yk_cuda_linear_staging_bytes - staging bytes of a grouped forward of an experts' layer (yk_grouped_args): x of each
 *   slot in the order of its matrix, or quantised. */
int64_t yk_cuda_linear_staging_bytes(const yk_linear_spec *spec);

/* yk_cuda_grouped_staging_bytes - the same for a grouped layer's one GEMM. */
int64_t yk_cuda_grouped_staging_bytes(const yk_cuda_gemm *gemm, int64_t max_slots);

/* yk_cuda_device_own_bytes - approximate memory of a device in addition to allocations through its table. */
int64_t yk_cuda_device_own_bytes(const yk_device_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
