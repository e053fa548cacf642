/* allreduce_p2p_instances.cuh - instances of the all-reduce kernels of one type for up to N ranks. NORMS: a name of the
 * enum norms. */
#ifndef YK_PARALLEL_P2P_ALLREDUCE_P2P_INSTANCES_CUH
#define YK_PARALLEL_P2P_ALLREDUCE_P2P_INSTANCES_CUH

#include "parallel/p2p/allreduce_p2p_kernels.cuh"

#define YK_INSTANCE(T, N, NORMS)                                                                                       \
  template yk_p2p_kernels::kernel yk_p2p_kernels::kernel_of<T, N, yk_p2p_kernels::norms::NORMS>(                       \
      bool, bool, yk_p2p_kernels::division);

#endif
