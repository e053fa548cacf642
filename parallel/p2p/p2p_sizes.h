/* p2p_sizes.h - the route of an all-reduce by its size: one-shot or two-shot (allreduce_p2p.h), or NCCL; with both
 * crossovers, and the memory of the slots. Pure arithmetic on sizes that are equal on all ranks, so that every rank
 * computes the same route; needs no GPU and no CUDA.
 *
 *   bytes of a launch     0 .. one_shot_bytes    .. max_bytes (8 MiB)    more
 *   route                 one-shot               two-shot                as up to 4 launches (rows only), else NCCL
 *
 * Rows of up to YK_P2P_SHORT_ROW_BYTES may have a smaller one_shot_bytes. */
#ifndef YK_PARALLEL_P2P_SIZES_H
#define YK_PARALLEL_P2P_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_P2P_MAX_RANKS = 8, /* the kernels hold a pointer to each peer's slots; more ranks use NCCL */
  YK_P2P_BLOCKS = 128,  /* maximum thread blocks of a launch; all must be resident at once */
  /* sets of slots: one in use, one that a rank which is ahead already fills */
  YK_P2P_SETS = 2,
  YK_P2P_STATE_BYTES = 2 * YK_P2P_BLOCKS * 4, /* one counter per thread block, for one-shot and for two-shot */
  YK_P2P_FLAG_BYTES = 256,                    /* flags of a device: allreduce_p2p_params.cuh */
  YK_P2P_MAX_ROW_BYTES = 32 * 1024,
  YK_P2P_SHORT_ROW_BYTES = 4 * 1024
};

typedef struct yk_p2p_options {
  int64_t max_bytes;                 /* largest all-reduce of one launch */
  int64_t max_row_bytes;             /* longest row, at most YK_P2P_MAX_ROW_BYTES */
  int64_t one_shot_bytes;            /* largest one-shot all-reduce; 0: the measured crossover for n_ranks */
  int32_t timeout_ms;                /* time that a kernel waits for another rank; 0: unlimited */
  int64_t short_rows_one_shot_bytes; /* replaces one_shot_bytes for rows up to YK_P2P_SHORT_ROW_BYTES; 0: the same */
} yk_p2p_options;

/* YK_P2P_NONE: not through slots: NCCL. */
typedef enum yk_p2p_route { YK_P2P_NONE, YK_P2P_ONE_SHOT, YK_P2P_TWO_SHOT } yk_p2p_route;

/* yk_p2p_options_for - the options for the ranks of a model.
 *   max_rows, row_bytes: the largest all_reduce_add_norm. step_limit_s: time limit of a step, 0 for none. The ranks
 *   wait for each other for three quarters of that time, so that the wait ends, and names the missing rank, before the
 *   step's own limit.
 *   max_bytes is 0 if no such all-reduce can use slots: one rank, or rows that are not multiples of 16 bytes or too
 *   long. */
yk_p2p_options yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double step_limit_s);

/* yk_p2p_one_shot_default - the measured crossover from one-shot to two-shot in bytes: see bench/log. */
int64_t yk_p2p_one_shot_default(int n_ranks);

/* yk_p2p_route_of_rows - the route of n_rows rows of row_bytes in one launch. */
yk_p2p_route yk_p2p_route_of_rows(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes);

/* yk_p2p_rows_at_once - rows of one launch of an all-reduce of n_rows: all rows, or an even part if a few launches
 *   together hold them; 0: NCCL. */
int64_t yk_p2p_rows_at_once(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes);

/* yk_p2p_route_of_array - the route of an array of n_bytes without rows. *row_bytes: size of the rows into which the
 *   array is cut; the last row may be short. */
yk_p2p_route yk_p2p_route_of_array(const yk_p2p_options *options, int64_t n_bytes, int64_t *row_bytes);

/* yk_p2p_takes_slices - whether n_ranks slices of together n_bytes pass through slots in one launch: whole 16 bytes
 *   each, up to max_bytes, if there are slots for two-shot. */
bool yk_p2p_takes_slices(const yk_p2p_options *options, int n_ranks, int64_t n_bytes);

/* yk_p2p_tree_check - whether n_ranks ranks add float32 in a tree (all_reduce_tree of comm.h): through slots; or up
 *   to two ranks, whose tree is their sum in any order. Errors: YK_E_UNSUPPORTED. */
yk_status yk_p2p_tree_check(int n_ranks, bool has_slots, yk_err *err);

/* Slots on each device: packets of 16 bytes for each thread block, set and source rank. */
typedef struct yk_p2p_layout {
  int64_t one_shot_packets, two_shot_packets; /* two-shot has twice this number: partial sums, and results */
  int64_t n_slot_packets;                     /* all of them */
  int64_t n_bytes;                            /* allocated, with the counters; 0 if max_bytes is 0 */
} yk_p2p_layout;

yk_p2p_layout yk_p2p_layout_of(const yk_p2p_options *options, int n_ranks);

#ifdef __cplusplus
}
#endif
#endif
