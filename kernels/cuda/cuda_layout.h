/* cuda_layout.h - what a GPU's memory holds of a model, and where. Pure arithmetic, compiled also where there is no
 * CUDA, so that a plan can be made for GPUs on any machine.                                                          */
#ifndef YK_KERNELS_CUDA_CUDA_LAYOUT_H
#define YK_KERNELS_CUDA_CUDA_LAYOUT_H

#include "kernels/cuda/gemm/w4a16.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_CUDA_ALIGNMENT_BYTES = 256,
  YK_CUDA_CUBLAS_BYTES = 32 << 20 /* what cuBLAS recommends for its workspace on compute capability 9.0 */
};

/* Parts of a linear layer that are one product. */
typedef struct yk_cuda_product {
  bool is_packed; /* W4A16; else plain */
  int first_part, end_part;
  int64_t k, n;         /* n: columns of weights, gate and up both */
  int64_t first_column; /* of its results within a row of y */
  bool has_bias;
  yk_w4a16_desc desc;    /* packed */
  yk_w4a16_plans plans;  /* of desc, filled in when the layer is created: which kernel for how many rows */
  int64_t weights, bias; /* bytes from the start of the layer's memory; bias act [n] if packed, else f32 [n] */
  bool is_resident;      /* weights are elsewhere on the device, and stay there */
  const void *resident;
} yk_cuda_product;

/* yk_cuda_linear_lay_out - the products of a layer and where they lie. dtype: the activations'. Returns the bytes of
 * all.                                                                                                               */
int64_t yk_cuda_linear_lay_out(const yk_linear_spec *spec, yk_dtype dtype,
                               yk_cuda_product products[YK_MAX_LINEAR_PARTS], int *n_products);

/* yk_cuda_linear_bytes - linear_bytes of the device's table. */
int64_t yk_cuda_linear_bytes(const yk_linear_spec *spec);

/* yk_cuda_device_own_bytes - about what a device takes for itself besides what is allocated through its table. */
int64_t yk_cuda_device_own_bytes(const yk_device_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
