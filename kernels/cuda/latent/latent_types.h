/* latent_types.h - what the launches of latent attention need to know of a device. See latent.h. */
#ifndef YK_KERNELS_CUDA_LATENT_LATENT_TYPES_H
#define YK_KERNELS_CUDA_LATENT_LATENT_TYPES_H

#include <stdint.h>

struct yk_cuda_blas;

/* The properties of a device that the launches depend on, read once. */
typedef struct yk_cuda_latent {
  int32_t n_multiprocessors, shared_bytes; /* largest shared memory of a thread block */
  int32_t n_clusters;      /* of CLUSTER_BLOCKS thread blocks that run at once, of cluster_kernel; 0: it never runs */
  int32_t n_pairs;         /* of thread blocks that run at once, of many_kernel */
  void *encode_tensor_map; /* as of yk_cuda_attention: NULL: no wgmma */
  uint32_t *grid_counters; /* [2], zeroed; not owned */
  const struct yk_cuda_blas *blas; /* not owned */
} yk_cuda_latent;

#endif
