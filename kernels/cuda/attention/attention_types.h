/* attention_types.h - the device properties that attention's launches depend on. See attention.h. */
#ifndef YK_KERNELS_CUDA_ATTENTION_ATTENTION_TYPES_H
#define YK_KERNELS_CUDA_ATTENTION_ATTENTION_TYPES_H

#include <stdint.h>

/* Read once, by yk_cuda_attention_init. Plain data; may be copied. */
typedef struct yk_cuda_attention {
  int32_t n_sms, smem_bytes; /* multiprocessors; largest shared memory of a thread block */
  void *encode_tensor_map;   /* the driver's cuTensorMapEncodeTiled on compute capability 9.0; else NULL: no wgmma */
  void *workspace;           /* device memory, not owned */
} yk_cuda_attention;

#endif
