/* target.cuh - which instructions the code that is being compiled may use. */
#ifndef YK_KERNELS_CUDA_PTX_TARGET_CUH
#define YK_KERNELS_CUDA_PTX_TARGET_CUH

/* The instructions of compute capability 9.0 alone: wgmma, setmaxnreg. A kernel that needs them has an empty body
 * elsewhere. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define YK_HAVE_SM90A 1
#endif

#endif
