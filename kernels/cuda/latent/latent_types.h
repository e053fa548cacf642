/* latent_types.h - the device properties that launches of latent attention read. See latent.h. */
#ifndef YK_KERNELS_CUDA_LATENT_LATENT_TYPES_H
#define YK_KERNELS_CUDA_LATENT_LATENT_TYPES_H

#include <stdint.h>

struct yk_cuda_blas;

/* Properties of the device, read once. */
typedef struct yk_cuda_latent {
  int32_t n_multiprocessors, shared_bytes; /* largest shared memory of a thread block */
  /* clusters of CLUSTER_BLOCKS thread blocks of cluster_kernel that can run at once; 0: the kernel is not used */
  int32_t n_clusters;
  int32_t n_pairs;                 /* pairs of thread blocks of many_kernel that can run at once */
  void *encode_tensor_map;         /* as in yk_cuda_attention; NULL: no wgmma */
  uint32_t *grid_counters;         /* [2], zeroed; not owned */
  const struct yk_cuda_blas *blas; /* not owned */
} yk_cuda_latent;

#endif
