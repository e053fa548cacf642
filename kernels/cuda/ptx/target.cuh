/* target.cuh - the instructions of the architecture that is compiled for. */
#ifndef YK_KERNELS_CUDA_PTX_TARGET_CUH
#define YK_KERNELS_CUDA_PTX_TARGET_CUH

/* Defined where sm_90a is compiled, the only architecture with wgmma. A kernel that needs wgmma has an empty body on
 * every other architecture, and the host does not launch it there. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define YK_HAVE_SM90A 1
#endif

#endif
