/* delta.h - gated delta nets on CUDA devices: the operation of kernels/gated_delta.h.
 *
 *   recurrent.cu   heads of 128, sequences with few rows, token by token: decode reads and writes each state once
 *   chunks.cu      heads of 128, sequences with more rows, in chunks of up to 64 rows on tensor cores
 *     prepare_kernel.cuh   the values that do not depend on the state, for all chunks at once
 *       chunk_inputs.cuh     convolution and decays of a chunk's rows
 *       chunk_solve.cuh      the triangular matrices of its rows
 *     walk_kernel.cuh      the chunks of a sequence one after another
 *       chunk_state.cuh      products with the state, which stays in registers
 *     chunk_shared.cuh     the layout of shared memory and of the scratch
 *   generic.cu     other head sizes, token by token, with the state in device memory: correct and slow
 *   inputs.cuh     the convolution, decays and betas of single tokens
 *   params.cuh     the parameters of every kernel; the position of a sequence's state
 *
 * One thread block has one value head of one sequence; a thread block of prepare_kernel has one key head and its value
 * heads. In kernels without chunks, the value heads of a key head share the convolution's inputs of q and k, which are
 * part of the state: the last of their thread blocks to read the old inputs writes the new ones.
 *
 * Lengths and slots are read from device memory, and counts from the host are upper bounds, so that a recorded launch
 * serves other steps. A row's result does not depend on the other sequences.
 *
 * Numerics: token by token all is float32. Chunks round q, k, v, the state and the deltas to the activation type where
 * tensor cores multiply them; the state itself stays float32. Chunks end at multiples of 64 tokens of the sequence,
 * where snapshots are saved, and where the step ends, so that the division into steps changes rounding alone. */
#ifndef YK_KERNELS_CUDA_DELTA_DELTA_H
#define YK_KERNELS_CUDA_DELTA_DELTA_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { YK_CUDA_DELTA_MAX_KEY_HEADS = 256 }; /* of a rank */

/* yk_cuda_delta_readers_bytes - size of `readers` for steps of up to max_seqs sequences. */
size_t yk_cuda_delta_readers_bytes(int32_t max_seqs);

/* yk_cuda_gated_delta_run - gated_delta of the device's table, asynchronous on stream; capturable.
 *   readers: device memory of yk_cuda_delta_readers_bytes, zeroed once; used by one call at a time.
 *   dtype: of activations, f16 or bf16. The kernels read states before griddepcontrol.wait. Between two calls on the
 *   same states, the stream must therefore have another kernel that waits.
 *   Errors: YK_E_UNSUPPORTED for head sizes that gated_delta.h excludes and for too many key heads, YK_E_DEVICE if a
 *   launch failed. Thread: the rank's own. */
yk_status yk_cuda_gated_delta_run(void *readers, const yk_gated_delta_args *args, yk_dtype dtype, cudaStream_t stream,
                                  yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
