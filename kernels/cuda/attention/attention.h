/* attention.h - paged attention on CUDA devices: flash decoding (split-KV) for decode, tensor core kernels for prefill.
 *
 * One call serves any mixture of sequences in a step: sequences with one query row (decode), with many rows (prefill),
 * or with a chunk of rows after KV blocks of earlier steps. Files:
 *
 *   attention.cu         dispatch: the kernel of each kind of sequence
 *   attention_types.h    the properties of a device that the launches depend on
 *   params.cuh           the arguments of every kernel; the workspace
 *   flash_decoding*      decode: sequences with one query row
 *     decode_work.cuh      the step's work items, listed in shared memory by every thread block
 *     split_kv.cuh         work division: the pages of K and V that a thread block reads
 *     page_ring.cuh        a warp's ring of stages in shared memory
 *     flash_decoding_warp.cuh   a warp's scores, online softmax and output on mma.sync
 *     cache_elements.cuh        the differences between KV caches of 16 and of 8 bits (kernels/kv_cache.h)
 *     split_kv_combine.cuh      combines the partial results of warps, then those of thread blocks
 *     decode_output.cuh         divides by the sum of probabilities, dequantises V's scales, stores to y
 *   gates.cuh            output gates, applied by every kernel before an output is rounded
 *   add_sink (params.cuh)     a head's sink, added to the sum of probabilities just before the division
 *   prefill_wgmma*       prefill on Hopper (compute capability 9.0): TMA, producer and consumer warps, wgmma
 *   prefill_row*         decode on Hopper with the bits of prefill, for is_invariant: heads of up to 128
 *   prefill_mma_sync*    prefill on other GPUs: cp.async and mma.sync
 *   prefill_wide*        prefill of heads of 512, on every GPU with enough shared memory
 *     prefill_scheduler.cuh     the tile scheduler of all prefill kernels
 *     prefill_splits.cuh        which work tiles several thread blocks share (on Hopper, heads of up to 128)
 *     prefill_wgmma_splits.cuh  partial results of such work tiles, and their combination
 *     kv_staging.cuh               8-bit pages, dequantised by the decode kernel into 16-bit pages for both kernels
 *   generic.cu           other head sizes: one warp for each query row and head
 *
 * Terms: a page is the K or the V of one KV head in one KV block, [YK_KV_BLOCK_TOKENS][head_dim], contiguous in device
 * memory. GQA packing: the query heads that share a KV head are rows (or columns) of one tile, so K and V are read once
 * for all of them. Online softmax: every output row carries its running maximum m, the sum l of its probabilities
 * relative to m, and its output o, not yet divided by l. The partial results (m, l, o) of two sets of keys combine into
 * the partial result of both sets.
 *
 * Decode: one thread block per multiprocessor, of 8 warps (12 for an 8-bit cache, whose conversions take time, with
 * heads of up to 128; 4 for heads of 256 with more than 8 query heads for a KV head; 2 or 4 for heads of 512; fewer if
 * shared memory is small).
 * The thread block takes consecutive pages, and each of its warps a consecutive part of them, so that a warp seldom
 * ends one work item and begins another.
 *
 *   block tables --> page numbers, 32 at a time in the registers of a warp
 *   K page, V page --(bulk copy, evict-first in L2, or cp.async; issued by the warp)--> a stage of the warp's own ring
 *     in shared memory
 *   each warp, page by page:
 *     wait for the stage's mbarrier | S^T = K Q^T | online softmax | O^T += V^T P^T | refill the stage
 *   a warp's (m, l, o) of a work item --> y if it has read the whole work item, else --> shared memory
 *   a warp, head by head: the warps' results combined --> y if the thread block has read the whole work item,
 *     else --> a partial result in the workspace
 *   the warp that completes a head's count of partial results combines them in order --> y
 *
 *   A warp waits for copies that it has issued itself and, once all its pages are read, for its thread block
 *   (__syncthreads). No thread block waits for another: the thread block that arrives last combines the results.
 *
 * Prefill on Hopper: one thread block of three warpgroups per multiprocessor; tile M 128 query rows, tile N 128 keys
 * (80 for heads of 256, which also have one q instead of two and no ping-pong: prefill_tiles).
 *
 *   warpgroup 0, producers:
 *     warps 2 and 3   take the next work tile from a counter in the workspace; its queries --(cp.async)--> q[2]
 *     warp 0          K pages --(TMA)--> kv[stage]      warp 1   V pages --(TMA)--> kv[stage]
 *   warpgroups 1 and 2, consumers, 64 query rows each:
 *     S = Q K^T (wgmma) | mask | online softmax | O += P V (wgmma); in ping-pong: the softmax of one warpgroup overlaps
 *     the wgmma of the other
 *   a warp's rows of a whole work tile --> y; of a split one --> a partial result in the workspace, and the warp that
 *     completes the count of partial results combines them in order --> y
 *
 *   barrier     arrivals                              waits
 *   work_full   warp 2: a work tile is described      warps 0 and 1
 *   q_full      warps 2 and 3: its queries are loaded consumers
 *   q_empty     consumers, warps 0 and 1              warps 2 and 3, before reusing that half of q and work
 *   kv_full     TMA; for a last V tile that the       consumers
 *               sequence fills in part, warp 1
 *   kv_empty    consumers                             warps 0 and 1, before reusing the stage
 *
 * Prefill on other GPUs: two thread blocks of 4 warps per multiprocessor, tile M 64, tile N 64 (32 for heads of 256);
 * all warps load with cp.async (two stages) and compute 16 query rows each. Heads of 512: one thread block of 8 warps,
 * tile M 64, tile N 32; two warps have 16 rows, each half of the dimensions.
 *
 * The kernels read values that vary from step to step (row_starts, kv_tokens, block_tables) from device memory and
 * derive their work from them; n_seqs, n_tokens and max_rows_per_seq are only upper bounds. A call captured in a CUDA
 * graph can therefore be replayed with other lengths and with fewer sequences than at capture: a sequence without rows
 * (row_starts[s] == row_starts[s + 1]) or without kv_tokens is skipped.
 * The kernels read these arrays before griddepcontrol.wait, while the previous kernel on the stream may still run: that
 * kernel must not write them. (In a layer the previous kernel writes the step's q, K and V, which are read after the
 * wait.)
 *
 * Numerics: scores, softmax and sums in float32, probabilities rounded to dtype for P V, output rounded once. Partial
 * results are combined in a fixed order: the same step gives the same bits. The division of a sequence's keys depends
 * on the lengths of the whole step, in prefill if a work tile has at least 16 key tiles, so a sequence's last bits may
 * differ between different steps. With is_invariant they do not: prefill splits no sequence, a row's key tiles are read
 * from the row's last one to the first, for any other rows of its work tile, and decode has the same bits. */
#ifndef YK_KERNELS_CUDA_ATTENTION_ATTENTION_H
#define YK_KERNELS_CUDA_ATTENTION_ATTENTION_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/attention_types.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_attention_init - reads the current device's properties into *attn.
 *   workspace: device memory of yk_cuda_attention_workspace_bytes for the largest layout used, aligned to 256 bytes and
 *   zeroed once; used by one call at a time (calls on one stream run in order, so they may share the workspace).
 *   Errors: YK_E_DEVICE. Thread: any. */
yk_status yk_cuda_attention_init(yk_cuda_attention *attn, void *workspace, yk_err *err);

/* yk_cuda_attention_workspace_bytes - size of the workspace for heads of up to head_dim elements on a device of n_sms
 *   multiprocessors; does not depend on the batch. */
size_t yk_cuda_attention_workspace_bytes(int32_t n_sms, int32_t head_dim);

/* yk_cuda_attention_run - computes y, the attention of args (see yk_attention_args), asynchronous on stream;
 *   capturable.
 *   dtype f16 or bf16; y, qkv and the caches aligned to 16 bytes. head_dim: a multiple of 4 up to 512. Heads of 64, 80,
 *   96, 128, 256 and 512 run on tensor cores, others on the generic kernel, which is slow. The generic kernel also runs
 *   layouts with more than 64 query heads for a KV head. max_rows_per_seq 1 guarantees a pure decode step and saves a
 *   launch.
 *   Errors: YK_E_UNSUPPORTED for other head sizes and types, YK_E_DEVICE if a launch failed. Thread: the rank's own. */
yk_status yk_cuda_attention_run(const yk_cuda_attention *attn, const yk_attention_args *args, yk_dtype dtype,
                                cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
