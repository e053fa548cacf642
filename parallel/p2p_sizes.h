/* p2p_sizes.h - which sums go from GPU to GPU through slots (see allreduce_p2p.h), in which way, and what the slots take.
 * Pure arithmetic on sizes that all ranks know, so that every rank decides alike; needs no GPU and no CUDA.            */
#ifndef YK_PARALLEL_P2P_SIZES_H
#define YK_PARALLEL_P2P_SIZES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_P2P_BLOCKS = 128,                        /* of a launch at most; all must be resident at once */
  YK_P2P_SETS = 3,                            /* slots in use, slots being cleared, slots a rank ahead already fills */
  YK_P2P_STATE_BYTES = 2 * YK_P2P_BLOCKS * 8, /* counters of every block, for one-shot and for two-shot */
  YK_P2P_MAX_ROW_BYTES = 32 * 1024
};

typedef struct yk_p2p_options {
  int64_t max_bytes;      /* largest message */
  int64_t max_row_bytes;  /* longest row, at most YK_P2P_MAX_ROW_BYTES */
  int64_t one_shot_bytes; /* largest message sent whole to every rank; 0: the measured crossover for n_ranks */
  int32_t timeout_ms;     /* how long a kernel waits for another rank; 0: for ever */
} yk_p2p_options;

/* Up to one_shot_bytes every rank sends its whole data to every other; above, each adds up a share and sends that. */
typedef enum yk_p2p_route { YK_P2P_NONE, YK_P2P_ONE_SHOT, YK_P2P_TWO_SHOT } yk_p2p_route;

/* yk_p2p_options_for - how the ranks of a model sum.
 *   max_rows, row_bytes: of a sum_add_norm at most. step_limit_s: time limit of a step, 0 for none; a rank is waited for three
 *   quarters of it, so that the wait ends, and can say for whom it waited, before the step's own limit ends it.
 *   max_bytes is 0 where no such sum can go this way: one rank, or rows that are not whole 16 bytes or too long.       */
yk_p2p_options yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double step_limit_s);

/* yk_p2p_one_shot_default - the measured crossover: see bench/NOTES.md. */
int64_t yk_p2p_one_shot_default(int n_ranks);

/* yk_p2p_route_of_rows - how n_rows rows of row_bytes go; YK_P2P_NONE: not this way. */
yk_p2p_route yk_p2p_route_of_rows(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes);

/* yk_p2p_rows_at_once - rows of one launch of a sum of n_rows: all of them, or an even share where a few launches together
 *   take them; 0: not this way.                                                                                      */
int64_t yk_p2p_rows_at_once(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes);

/* yk_p2p_route_of_array - how n_bytes without rows go. row_bytes: what they are cut into, the last one maybe short. */
yk_p2p_route yk_p2p_route_of_array(const yk_p2p_options *options, int64_t n_bytes, int64_t *row_bytes);

/* Slots on each device: packets of 16 bytes for a block, a set and a source rank. */
typedef struct yk_p2p_layout {
  int64_t one_shot_packets, two_shot_packets; /* the latter twice: for data, and for results */
  int64_t n_slot_packets;                     /* all of them */
  int64_t n_bytes;                            /* with the counters: what is allocated; 0 where max_bytes is */
} yk_p2p_layout;

yk_p2p_layout yk_p2p_layout_of(const yk_p2p_options *options, int n_ranks);

#ifdef __cplusplus
}
#endif
#endif
