/* attention.h - attention over the paged KV cache on CUDA devices.
 *
 * One call serves a step of any mixture: sequences that bring one row (decode), many rows (prefill), or a chunk of rows
 * after earlier blocks. What varies from step to step (row_starts, kv_tokens, block_tables) is read from device memory
 * by the kernels, which size their own work from it; n_seqs, n_tokens and max_rows_per_seq only have to bound it. So a
 * call captured in a CUDA graph can be replayed with other lengths, and with fewer sequences than it was captured for:
 * a sequence without rows (row_starts[s] == row_starts[s + 1]) or without kv_tokens is skipped.
 * These arrays are read while the kernel before this call is still ending: that kernel must not be what writes them
 * (in a layer it is the one that writes the step's K and V).
 *
 * Numerics: scores, softmax and sums in float32, probabilities rounded to dtype for the second product, output rounded
 * once. Partial results over a split KV range are combined in a fixed order: the same step gives the same bits. The
 * split depends on the lengths of the whole step, so a sequence's last bits may differ between different steps.     */
#ifndef YK_KERNELS_CUDA_ATTENTION_H
#define YK_KERNELS_CUDA_ATTENTION_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the launches need to know of a device, read once. Plain data; may be copied. */
typedef struct yk_cuda_attention {
  int32_t n_sms, smem_bytes; /* multiprocessors, largest shared memory of a block */
  void *encode_tensor_map;   /* the driver's cuTensorMapEncodeTiled; NULL where unknown or no use */
  void *workspace;           /* not owned */
} yk_cuda_attention;

/* yk_cuda_attention_init - describe the current device.
 *   workspace: device memory of yk_cuda_attention_workspace_bytes for the largest layout used, aligned to 256 bytes and
 *   zeroed once; used by one call at a time (calls on one stream follow each other, so they may share it).
 *   Errors: YK_E_DEVICE. Thread: any.                                                                                */
yk_status yk_cuda_attention_init(yk_cuda_attention *attn, void *workspace, yk_err *err);

/* yk_cuda_attention_workspace_bytes - does not depend on the batch. */
size_t yk_cuda_attention_workspace_bytes(int32_t n_sms, int32_t head_dim);

/* yk_cuda_attention_run - y = attention of args (see yk_attention_args), asynchronous on stream; capturable.
 *   dtype f16 or bf16. head_dim a multiple of 4 up to 256: 64, 80, 96 and 128 run on tensor cores, others on a plain
 *   path that is correct and slow; so do those for which a block's shared memory is too small: with 99 KB (compute capability
 *   8.6, 8.9) 128 with more than 8 query heads a KV head. max_rows_per_seq 1 promises a pure decode step and saves a launch.
 *   Errors: YK_E_UNSUPPORTED for other head sizes and types, YK_E_DEVICE if a launch failed. Thread: the rank's own. */
yk_status yk_cuda_attention_run(const yk_cuda_attention *attn, const yk_attention_args *args, yk_dtype dtype,
                                cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
