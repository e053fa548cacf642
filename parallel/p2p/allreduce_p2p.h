/* allreduce_p2p.h - all-reduce over the GPUs of one host by stores into each other's memory (push), one-shot and
 * two-shot, with the residual add and the RMSNorm fused in. Sizes, the crossovers from one-shot to two-shot and to
 * NCCL, and the memory of the slots: p2p_sizes.h.
 *
 *   allreduce_p2p.cu            host side: slots, peer access, launches
 *   allreduce_p2p_params.cuh    the arguments of a launch, and the memory that the ranks share
 *   allreduce_p2p_launch.cuh    the choice of kernel, and the division of rows among thread blocks
 *   allreduce_p2p_kernels.cuh   the one-shot kernel and the two-shot kernel
 *   allreduce_p2p_rows.cuh      reduces a row in rank order, adds the residual, normalises
 *   allreduce_p2p_slots.cuh     packets, slots, waiting for a packet
 *   slices_p2p.cuh, .cu         the two halves of two-shot as separate launches
 *   await_writes_p2p.cu         rank 0 waits for the others' writes to its memory
 *
 * One-shot (latency): every rank pushes all its rows to every other rank; each rank reduces all rows.
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
 * With a norm of the sum (result_w) a two-shot result is the rounded sum of partial rows. Every rank then normalises
 * the sum and adds it to its residual, which is equal on all ranks. Such kernels are separate template instances.
 *
 * If a thread block has no more rows than thread groups, a thread holds its part of this rank's partial row, of the
 * residual and of the norm's weights in registers throughout the exchange (allreduce_p2p_rows.cuh).
 *
 * Packets carry their flag in the data, as NCCL's LL protocols do, but without giving up payload: a word that has not
 * arrived reads as minus zero, which no sender sends (a minus zero is sent as zero). A packet therefore needs no fence
 * and no separate flag, and its 16 bytes may arrive in any order.
 *
 * Dependencies: thread block b of a rank exchanges packets only with thread block b of the other ranks. All thread
 * blocks of a launch are resident at once. There are two sets of slots, used alternately, and the reader of a packet
 * empties its slot (allreduce_p2p_slots.cuh). The counters that select the next set are in device memory, so a captured
 * graph can be replayed.
 *
 * Numerics: float32, added in rank order, rounded once; every rank holds the same bits (see yk_add_norm_args). Arrays
 * of float32 are added in a tree, neighbouring ranks first.
 *
 * Failure: a kernel that waits longer than the time limit, or whose group is aborted, ends without a result, and all
 * later kernels end at once; yk_p2p_check returns the missing rank. The limit also covers a rank that never launches.
 * A two-shot result depends on all ranks' partial rows, so the limit for results is a quarter longer: the ranks that
 * wait for partial rows of the missing rank name it first. The content that an unfinished exchange leaves in slots is
 * irrelevant: every later call of the group fails, and a new group has its own slots. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_H
#define YK_PARALLEL_ALLREDUCE_P2P_H

#include "kernels/all_reduce.h"
#include "kernels/device.h"
#include "kernels/peer_wait.h"
#include "parallel/p2p/p2p_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

typedef struct yk_p2p yk_p2p; /* one rank's end */

/* The ranks of a group, of which this process has some. */
typedef struct yk_p2p_ranks {
  int n_ranks;
  int first, n_local;      /* of this process */
  int first_of_all;        /* number of rank 0 in messages */
  const int *cuda_devices; /* [n_local] two ranks may share a device only if all their kernels fit on it together */
} yk_p2p_ranks;

/* yk_p2p_create - the ends of this process's ranks, one per device; enables peer access between the devices and loads
 *   all kernels. Synchronises each device. If other processes have ranks of the group, yk_p2p_connect must follow.
 *   out [n_local]; destroy each once, when no rank's stream holds work of the group any more.
 *   Errors: YK_E_UNSUPPORTED if two devices cannot access each other's memory; YK_E_CAPACITY, YK_E_DEVICE, YK_E_INVAL.
 *   Thread: any one; changes no current device. */
yk_status yk_p2p_create(const yk_p2p_ranks *ranks, const yk_p2p_options *options, yk_p2p **out, yk_err *err);

/* Names memory of a GPU to another process of the same host. */
typedef struct yk_p2p_handle {
  char bytes[64];
} yk_p2p_handle;

/* yk_p2p_export - the handle of the end's slots. Errors: YK_E_UNSUPPORTED if the system shares no memory of GPUs
 *   between processes. Thread: any; changes no current device. */
yk_status yk_p2p_export(const yk_p2p *end, yk_p2p_handle *out, yk_err *err);

/* yk_p2p_connect - opens the slots of other processes' ranks to the end. handles [n_ranks] of yk_p2p_export; those of
 *   this process's ranks are not used. The owner frees the slots once no rank's stream holds work of the group, even if
 *   other processes still have them open.
 *   Errors: YK_E_UNSUPPORTED if a rank's memory cannot be reached. Thread: any; changes no current device. */
yk_status yk_p2p_connect(yk_p2p *end, const yk_p2p_handle *handles, yk_err *err);

/* yk_p2p_export_memory, yk_p2p_open_memory - the same for other memory: an allocation of the end's device, given by its
 *   first byte. An end opens up to YK_P2P_MAX_OPENED allocations, until it is destroyed. */
enum { YK_P2P_MAX_OPENED = 2 * YK_P2P_MAX_RANKS };
yk_status yk_p2p_export_memory(const yk_p2p *end, void *memory, yk_p2p_handle *out, yk_err *err);
yk_status yk_p2p_open_memory(yk_p2p *end, const yk_p2p_handle *handle, void **opened, yk_err *err);

/* yk_p2p_get_options - the options of yk_p2p_create with the crossover filled in: the argument of yk_p2p_route_of_rows
 *   and yk_p2p_route_of_array. */
const yk_p2p_options *yk_p2p_get_options(const yk_p2p *end);

/* yk_p2p_all_reduce_add_norm - all-reduce with residual add and RMSNorm: see yk_all_reduce_add_norm_args; dtype f16 or
 *   bf16; pointers aligned to 16 bytes. With result_w or a gain, partial is in state ROWS. Asynchronous on stream;
 *   capturable.
 *   Errors: YK_E_UNSUPPORTED if yk_p2p_route_of_rows returns none, YK_E_INVAL for a partial result in state SLOTS with
 *   result_w or a gain, YK_E_DEVICE, and YK_E_COMM as yk_p2p_check.
 *   Thread: the rank's own, with its device current. */
yk_status yk_p2p_all_reduce_add_norm(yk_p2p *end, const yk_all_reduce_add_norm_args *args, yk_dtype dtype,
                                     struct CUstream_st *stream, yk_err *err);

/* yk_p2p_all_reduce - data [count] of dtype becomes the sum over ranks. Otherwise as above, with
 *   yk_p2p_route_of_array.                                                                                           */
yk_status yk_p2p_all_reduce(yk_p2p *end, void *data, int64_t count, yk_dtype dtype, struct CUstream_st *stream,
                            yk_err *err);

/* yk_p2p_all_reduce_i32 - data [count] becomes the sum or the maximum over ranks, exactly. No value and no sum may be
 *   INT32_MIN. Otherwise as yk_p2p_all_reduce; YK_E_UNSUPPORTED unless yk_p2p_route_of_array returns one-shot. */
yk_status yk_p2p_all_reduce_i32(yk_p2p *end, int32_t *data, int64_t count, yk_reduction reduction,
                                struct CUstream_st *stream, yk_err *err);

/* yk_p2p_reduce_scatter, yk_p2p_all_gather - see reduce_scatter and all_gather in parallel/comm.h; n_bytes: of all
 *   slices together. Asynchronous on stream; capturable. Errors: YK_E_UNSUPPORTED unless yk_p2p_takes_slices, or for
 *   dtypes other than f16 and bf16; otherwise as yk_p2p_all_reduce. */
yk_status yk_p2p_reduce_scatter(yk_p2p *end, void *data, int64_t n_bytes, yk_dtype dtype, struct CUstream_st *stream,
                                yk_err *err);
yk_status yk_p2p_all_gather(yk_p2p *end, void *data, int64_t n_bytes, struct CUstream_st *stream, yk_err *err);

/* yk_p2p_await_writes - see await_writes in parallel/comm.h. Otherwise as above. */
yk_status yk_p2p_await_writes(yk_p2p *end, struct CUstream_st *stream, yk_err *err);

/* yk_p2p_check - returns YK_OK, or YK_E_COMM: the missing rank (in err->rank too), from every end of this process once
 *   one end has found the missing rank; or YK_E_COMM if this end was aborted. Never blocks. Thread: any. */
yk_status yk_p2p_check(const yk_p2p *end, yk_err *err);

/* yk_p2p_peer_wait - for other kernels of this end's device that wait for the group's ranks: yk_p2p_check reports the
 *   missing ranks that these kernels find. */
yk_peer_wait yk_p2p_peer_wait(const yk_p2p *end);

/* yk_p2p_abort - ends waiting and later kernels of this process's ranks soon, without a result. Never blocks. Thread:
 *   any. */
void yk_p2p_abort(yk_p2p *end);

/* yk_p2p_give_up - the same for this end's kernels only. Never blocks. Thread: any. */
void yk_p2p_give_up(yk_p2p *end);

/* yk_p2p_destroy - the last end of a group frees the memory of all. When the last end is destroyed, no rank may still
 *   run work of the group or store into the slots. NULL is allowed. Thread: any. */
void yk_p2p_destroy(yk_p2p *end);

#ifdef __cplusplus
}
#endif
#endif
