/* attention_types.h - what the launches of attention need to know of a device. See attention.h. */
#ifndef YK_KERNELS_CUDA_ATTENTION_ATTENTION_TYPES_H
#define YK_KERNELS_CUDA_ATTENTION_ATTENTION_TYPES_H

#include <stdint.h>

/* The properties of a device that the launches depend on, read once. Plain data; may be copied. */
typedef struct yk_cuda_attention {
  int32_t n_sms, smem_bytes; /* multiprocessors; largest shared memory of a thread block */
  void *encode_tensor_map;   /* the driver's cuTensorMapEncodeTiled on compute capability 9.0; else NULL: no wgmma */
  void *workspace;           /* not owned */
} yk_cuda_attention;

#endif
