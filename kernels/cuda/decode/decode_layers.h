/* decode_layers.h - all layers of a dense model as one operation on the CUDA device: operations of its table, see
 * kernels/device.h and kernels/decode_layers.h. decode.h declares the kernel. */
#ifndef YK_KERNELS_CUDA_DECODE_DECODE_LAYERS_H
#define YK_KERNELS_CUDA_DECODE_DECODE_LAYERS_H

#include "kernels/device.h"

/* yk_cuda_decode_layers_create - *out is NULL unless every linear layer is one GEMM of 4-bit integers with one group in
 *   each K tile and inputs in order, without adapters and slices of K, every cache has the activation type, and the
 *   kernel takes the shape and its memory fits. Errors: YK_E_NOMEM, YK_E_DEVICE. */
yk_status yk_cuda_decode_layers_create(yk_device *dev, const yk_decode_layers_spec *spec, yk_decode_layers **out,
                                       yk_err *err);
void *yk_cuda_decode_layers_exchange(yk_device *dev, yk_decode_layers *layers, int32_t traits[YK_DECODE_N_TRAITS]);
void yk_cuda_decode_layers_connect(yk_device *dev, yk_decode_layers *layers, const yk_decode_peers *peers);
bool yk_cuda_decode_layers_takes(yk_device *dev, const yk_decode_layers *layers, const yk_batch *batch);
yk_status yk_cuda_decode_layers_run(yk_device *dev, const yk_decode_layers *layers, const yk_decode_layers_args *args,
                                    yk_err *err);
void yk_cuda_decode_layers_destroy(yk_device *dev, yk_decode_layers *layers);

#endif
