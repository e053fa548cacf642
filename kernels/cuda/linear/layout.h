/* layout.h - what a GPU's memory holds of a model, and where. Pure arithmetic, compiled also where there is no CUDA, so
 * that a plan can be made for GPUs on any machine. */
#ifndef YK_KERNELS_CUDA_LINEAR_LAYOUT_H
#define YK_KERNELS_CUDA_LINEAR_LAYOUT_H

#include "kernels/cuda/linear/format.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_CUDA_ALIGNMENT_BYTES = 256,     /* of everything that is placed in device memory, as cudaMalloc aligns */
  YK_CUDA_CUBLAS_BYTES = 32 << 20,   /* what cuBLAS recommends for its workspace on compute capability 9.0 */
  YK_CUDA_QUANTISED_BYTES = 64 << 20 /* at most, of quantised inputs of a block of rows */
};

/* The GEMMs of a linear layer, in the order of its parts. */
typedef struct yk_cuda_linear_layout {
  const yk_cuda_format *formats[YK_MAX_LINEAR_PARTS]; /* of each part */
  yk_cuda_gemm gemms[YK_MAX_LINEAR_PARTS];
  int n_gemms;
  int64_t matrix_bytes; /* from a matrix, with all its parts, to the next */
} yk_cuda_linear_layout;

/* yk_cuda_linear_lay_out - the GEMMs of a layer and where they lie in a matrix. dtype: the activations'.
 *   Errors: YK_E_UNSUPPORTED, naming a part that no row of the table takes, or a gate and up that no GEMM takes both.
 */
yk_status yk_cuda_linear_lay_out(const yk_linear_spec *spec, yk_dtype dtype, yk_cuda_linear_layout *out, yk_err *err);

/* yk_cuda_linear_bytes - linear_bytes of the device's table; 0 for a layer that cannot be laid out. */
int64_t yk_cuda_linear_bytes(const yk_linear_spec *spec);

/* yk_cuda_linear_keeps - linear_keeps of the device's table: floats and 4-bit integers always, 8-bit integers with
 *   an order of x; other formats where a row multiplies them as they are. A gate and an up are kept together or not at
 *   all, since a gate of another GEMM than the up's could not be multiplied. */
bool yk_cuda_linear_keeps(const yk_linear_spec *spec, int i);

/* yk_cuda_linear_room_bytes - linear_room_bytes of the device's table: x of each slot in the order of its matrix, or
 *   quantised. */
int64_t yk_cuda_linear_room_bytes(const yk_linear_spec *spec);

/* yk_cuda_grouped_room_bytes - the same of a grouped layer's one GEMM. */
int64_t yk_cuda_grouped_room_bytes(const yk_cuda_gemm *gemm, int64_t max_slots);

enum {
  YK_CUDA_LATENT_ROWS = 256,         /* rows of latent attention whose products with kv_b_proj lie in the scratch */
  YK_CUDA_LATENT_SPLIT_BLOCKS = 264, /* thread blocks of latent attention that leave partial results, at most */
  /* Sequences with more rows than these in a step get keys and values of each head: at most so many sequences, in so
   * many groups of heads, with so many bytes for the keys and values of a group. */
  YK_CUDA_LATENT_EXPANDED_ROWS = 170,
  YK_CUDA_LATENT_EXPANDED_SEQS = 256,
  YK_CUDA_LATENT_HEAD_GROUPS = 128,
  YK_CUDA_LATENT_MADE_BYTES = 128 << 20
};

/* yk_cuda_latent_expands - whether kernels for keys and values of each head take these sizes. */
bool yk_cuda_latent_expands(const yk_latent_layout *layout);

/* yk_cuda_latent_scratch_bytes - latent_scratch_bytes of the device's table. */
int64_t yk_cuda_latent_scratch_bytes(const yk_latent_layout *layout, int32_t max_tokens);

/* yk_cuda_device_own_bytes - about what a device takes for itself besides what is allocated through its table. */
int64_t yk_cuda_device_own_bytes(const yk_device_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
