/* mamba.h - Mamba2 on CUDA devices: the operation of kernels/mamba.h.
 *
 *   recurrent.cu   sequences with few rows, and other sizes than below with any number of rows, token by token; with
 *                  heads of 64 and states of 128 the state stays in registers, else in device memory
 *   heads of 64 and states of 128, sequences with more rows:
 *     convolve.cu  the convolution, to the scratch
 *     chunks.cu    the heads, in chunks of up to 64 rows on tensor cores
 *   norm.cu        gate and norm of sequences with more rows
 *   inputs.cuh     channels and steps of a head
 *   norm_rows.cuh  gate and norm of a group of heads
 *   params.cuh     the parameters of every kernel, and the columns of a head
 *
 * One thread block has one head of one sequence. The heads of a group share the convolution's inputs of b and c, and
 * the norm: in the recurrent kernel the group's last thread block writes these inputs of the state after, and the
 * result.
 *
 * Lengths and slots are read from device memory, and counts from the host are upper bounds, so that a recorded launch
 * serves other steps. A row's result does not depend on the other sequences.
 *
 * Numerics: token by token all is float32. Chunks round x, b, c, the state that is multiplied, the products of c and b,
 * and y before its gate to the activation type; the state itself stays float32. Chunks end at multiples of 64 tokens of
 * the sequence, where snapshots are saved, and where the step ends, so that the division into steps changes rounding
 * alone. */
#ifndef YK_KERNELS_CUDA_MAMBA_MAMBA_H
#define YK_KERNELS_CUDA_MAMBA_MAMBA_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_CUDA_MAMBA_MAX_GROUPS = 256, /* of a rank */
  YK_CUDA_MAMBA_MAX_DIM = 256     /* elements of a head, and of b and c of a group */
};

/* yk_cuda_mamba_readers_bytes - size of `readers` for steps of up to max_seqs sequences. */
size_t yk_cuda_mamba_readers_bytes(int32_t max_seqs);

/* yk_cuda_mamba_run - mamba of the device's table, asynchronous on stream; capturable.
 *   readers: device memory of yk_cuda_mamba_readers_bytes, zeroed once; used by one call at a time.
 *   dtype: of activations, f16 or bf16. Before griddepcontrol.wait the kernels read states that earlier steps have
 *   written: two calls on the same states need another kernel between them that waits.
 *   Errors: YK_E_UNSUPPORTED for sizes that mamba.h excludes or above the limits, YK_E_DEVICE if a launch failed.
 *   Thread: the rank's own. */
yk_status yk_cuda_mamba_run(void *readers, const yk_mamba_args *args, yk_dtype dtype, cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
