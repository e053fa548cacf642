/* allreduce_p2p.h - sums over the ranks of one process by stores into each other's memory. Which sums, and what the slots
 * take: p2p_sizes.h.
 *
 * Up to one_shot_bytes every rank sends its whole data to every other and each adds for itself; above, rank r adds the
 * rows r, r + n, ... and sends the result round (two-shot). Both are one kernel, the residual add and the RMSNorm in
 * it. Data travels as its own flag: a word that is not there yet reads as minus zero, which no sender sends (it is
 * sent as zero). Each block of a rank talks to the block of the same number of the others alone, through three sets of
 * slots in turn; counters live in device memory, so a captured graph can be replayed.
 *
 * Numerics: float32, added in rank order, rounded once; every rank holds the same bits (see yk_add_norm_args).
 *
 * A kernel that waits longer than the time limit, or whose group is aborted, ends without a result and all later ones
 * at once; yk_p2p_check tells which rank did not come. The limit also covers a rank that never launches. Everybody waits
 * first of all for what comes straight from a rank, and a quarter longer for what a rank makes of others' data, so that
 * the rank named is the one that did not come. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_H
#define YK_PARALLEL_ALLREDUCE_P2P_H

#include "parallel/comm.h"
#include "parallel/p2p_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

typedef struct yk_p2p yk_p2p; /* one rank's end */

/* yk_p2p_create - ends for n_ranks ranks of this process, one per device; gives the devices access to each other.
 *   cuda_devices [n_ranks]: two ranks may share a device only while all their kernels fit on it together (tests).
 *   out [n_ranks]; destroy each once, when no rank's stream holds work of the group any more.
 *   Errors: YK_E_UNSUPPORTED where two devices cannot reach each other's memory; YK_E_CAPACITY, YK_E_DEVICE,
 *   YK_E_INVAL.
 *   Thread: any one; changes no current device.                                                                      */
yk_status yk_p2p_create(const int *cuda_devices, int n_ranks, const yk_p2p_options *options, yk_p2p **out, yk_err *err);

/* yk_p2p_get_options - as created, the crossover filled in: what yk_p2p_route_of_rows and _array take. */
const yk_p2p_options *yk_p2p_get_options(const yk_p2p *end);

/* yk_p2p_sum_add_norm - see yk_sum_add_norm_args; dtype f16 or bf16; pointers aligned to 16 bytes. Asynchronous on stream;
 *   capturable.
 *   Errors: YK_E_UNSUPPORTED where yk_p2p_route_of_rows says none, YK_E_DEVICE, and YK_E_COMM as yk_p2p_check.
 *   Thread: the rank's own, with its device current.                                                                 */
yk_status yk_p2p_sum_add_norm(yk_p2p *end, const yk_sum_add_norm_args *args, yk_dtype dtype, struct CUstream_st *stream,
                              yk_err *err);

/* yk_p2p_all_reduce_sum - data [count] of dtype becomes the sum over ranks. Otherwise as above, with
 *   yk_p2p_route_of_array.                                                                                           */
yk_status yk_p2p_all_reduce_sum(yk_p2p *end, void *data, int64_t count, yk_dtype dtype, struct CUstream_st *stream,
                                yk_err *err);

/* yk_p2p_check - YK_OK, or YK_E_COMM: which rank was missing (err->rank too), told by every end once one has seen it, or
 *   that this end was aborted. Never blocks. Thread: any.                                                            */
yk_status yk_p2p_check(const yk_p2p *end, yk_err *err);

/* yk_p2p_abort - every rank's waiting and later kernels end soon, without a result. Never blocks. Thread: any. */
void yk_p2p_abort(yk_p2p *end);

/* yk_p2p_give_up - the same for this end's kernels alone. Never blocks. Thread: any. */
void yk_p2p_give_up(yk_p2p *end);

void yk_p2p_destroy(yk_p2p *end);

#ifdef __cplusplus
}
#endif
#endif
