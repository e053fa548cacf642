/* allreduce_p2p.h - all-reduce over the GPUs of one process by stores into each other's memory (push), one-shot and
 * two-shot, with the residual add and the RMSNorm fused in. Sizes, the crossover from one-shot to two-shot and the one
 * to NCCL, and the memory of the slots: p2p_sizes.h.
 *
 *   allreduce_p2p.cu            host side: slots, peer access, launches
 *   allreduce_p2p_params.cuh    the arguments of a launch, and the memory that the ranks share
 *   allreduce_p2p_launch.cuh    which kernel a launch takes, how its thread blocks divide the rows
 *   allreduce_p2p_kernels.cuh   the one-shot kernel and the two-shot kernel
 *   allreduce_p2p_rows.cuh      reduce a row in rank order, add the residual, normalise
 *   allreduce_p2p_slots.cuh     packets, slots, how a thread waits for a packet
 *   await_writes_p2p.cu         rank 0 waits for what the others have written to its memory
 *
 * One-shot (latency): every rank pushes all its rows to every other rank; each rank reduces all rows by itself.
 *
 *   rank r: partial row --(st.relaxed.sys, 16-byte packets)--> slot [r] on every other rank
 *           wait for slots [0 .. n-1] of the row -> sum in rank order -> + residual -> residual, RMSNorm -> y
 *
 * Two-shot (bandwidth): a reduce-scatter and an all-gather. Row i belongs to rank i % n.
 *
 *   rank r: its partial of row i --> slot [r] on rank i % n, for every row i of other ranks
 *           its own rows: wait for slots [0 .. n-1] -> sum in rank order -> + residual -> result
 *                         result -> residual, and --> slot [r] for results on every other rank
 *           the others' rows: wait for their results -> residual
 *           every row: RMSNorm of the residual -> y
 *
 * Where a thread block has no more rows than thread groups, a thread holds its part of this rank's partial row, of the
 * residual and of the norm's weights in registers from before the exchange to its end (allreduce_p2p_rows.cuh).
 *
 * Packets carry their flag in the data, as NCCL's LL protocols do, but without giving up payload: a word that has not
 * arrived reads as minus zero, which no sender sends (a minus zero is sent as zero). So a packet needs no fence and no
 * separate flag, and its 16 bytes may arrive in any order.
 *
 * Who waits for whom: thread block b of a rank exchanges packets with thread block b of the other ranks alone. All
 * thread blocks of a launch are resident at once. There are two sets of slots, used in turn, and whoever has read a
 * packet empties its slot (allreduce_p2p_slots.cuh). The counters that say which set is next live in device memory, so
 * a captured graph can be replayed.
 *
 * Numerics: float32, added in rank order, rounded once; every rank holds the same bits (see yk_add_norm_args).
 *
 * Failure: a kernel that waits longer than the time limit, or whose group is aborted, ends without a result, and all
 * later ones end at once; yk_p2p_check says which rank is missing. The limit also covers a rank that never launches.
 * A two-shot result depends on all ranks' partial rows, so the limit for results is a quarter longer: whoever waits for
 * the partial rows of the rank that is missing names it first. What an unfinished exchange leaves in slots does
 * not matter: every later call of the group fails, and a new group has slots of its own. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_H
#define YK_PARALLEL_ALLREDUCE_P2P_H

#include "kernels/all_reduce.h"
#include "kernels/device.h"
#include "parallel/p2p/p2p_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

typedef struct yk_p2p yk_p2p; /* one rank's end */

/* yk_p2p_create - ends for n_ranks ranks of this process, one per device; enables peer access between the devices and
 *   loads all kernels. Synchronises each device.
 *   cuda_devices [n_ranks]: two ranks may share a device only while all their kernels fit on it together (tests).
 *   out [n_ranks]; destroy each once, when no rank's stream holds work of the group any more.
 *   Errors: YK_E_UNSUPPORTED where two devices cannot reach each other's memory; YK_E_CAPACITY, YK_E_DEVICE,
 *   YK_E_INVAL.
 *   Thread: any one; changes no current device.                                                                      */
yk_status yk_p2p_create(const int *cuda_devices, int n_ranks, const yk_p2p_options *options, yk_p2p **out, yk_err *err);

/* yk_p2p_get_options - as created, the crossover filled in: what yk_p2p_route_of_rows and _array take. */
const yk_p2p_options *yk_p2p_get_options(const yk_p2p *end);

/* yk_p2p_all_reduce_add_norm - all-reduce with residual add and RMSNorm: see yk_all_reduce_add_norm_args; dtype f16 or
 *   bf16; pointers aligned to 16 bytes. Asynchronous on stream; capturable.
 *   Errors: YK_E_UNSUPPORTED where yk_p2p_route_of_rows says none, YK_E_DEVICE, and YK_E_COMM as yk_p2p_check.
 *   Thread: the rank's own, with its device current.                                                                 */
yk_status yk_p2p_all_reduce_add_norm(yk_p2p *end, const yk_all_reduce_add_norm_args *args, yk_dtype dtype,
                                     struct CUstream_st *stream, yk_err *err);

/* yk_p2p_all_reduce - data [count] of dtype becomes the sum over ranks. Otherwise as above, with
 *   yk_p2p_route_of_array.                                                                                           */
yk_status yk_p2p_all_reduce(yk_p2p *end, void *data, int64_t count, yk_dtype dtype, struct CUstream_st *stream,
                            yk_err *err);

/* yk_p2p_all_reduce_i32 - data [count] becomes the sum or the largest over ranks, exactly. No value and no sum may be
 *   INT32_MIN. Otherwise as yk_p2p_all_reduce; YK_E_UNSUPPORTED unless yk_p2p_route_of_array says one-shot. */
yk_status yk_p2p_all_reduce_i32(yk_p2p *end, int32_t *data, int64_t count, yk_reduction reduction,
                                struct CUstream_st *stream, yk_err *err);

/* yk_p2p_await_writes - see await_writes in parallel/comm.h. Otherwise as above. */
yk_status yk_p2p_await_writes(yk_p2p *end, struct CUstream_st *stream, yk_err *err);

/* yk_p2p_check - YK_OK, or YK_E_COMM: which rank is missing (err->rank too), from every end once one has found out, or
 *   that this end was aborted. Never blocks. Thread: any.                                                            */
yk_status yk_p2p_check(const yk_p2p *end, yk_err *err);

/* yk_p2p_abort - every rank's waiting and later kernels end soon, without a result. Never blocks. Thread: any. */
void yk_p2p_abort(yk_p2p *end);

/* yk_p2p_give_up - the same for this end's kernels alone. Never blocks. Thread: any. */
void yk_p2p_give_up(yk_p2p *end);

/* yk_p2p_destroy - the last end of a group frees the memory of all. No rank may still run work of the group, nor store
 *   into the slots, when the last end goes. NULL is allowed. Thread: any. */
void yk_p2p_destroy(yk_p2p *end);

#ifdef __cplusplus
}
#endif
#endif
