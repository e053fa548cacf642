/* step_arrays.h - the arrays of a step, one row each: element, length, who reads the array, padding.
 *
 * The step builder fills the arrays, decode graphs copy and pad them, buffers are sized for them and devices find them,
 * all by this table: a new array is a row here, and whoever fills and reads it. The arrays lie in one flat block, in
 * the order of the table:
 *
 *   | arrays that every rank reads | arrays for sampling, rank 0's alone | late arrays, rank 0's alone |
 *   0                         rank_bytes                                                         n_bytes
 *
 * Every rank uploads the first part with one copy. Late arrays may still be filled while the ranks compute
 * (step_late.h). The layout is a function of the counts alone, so counts and block are the whole step. */
#ifndef YK_MODEL_STEP_ARRAYS_H
#define YK_MODEL_STEP_ARRAYS_H

#include "kernels/device.h"

/* What the lengths of the arrays depend on, and what every rank knows of a step beside its arrays. */
typedef struct yk_step_counts {
  int32_t n_tokens; /* rows of the step */
  int32_t n_seqs;   /* sequences that bring the rows */
  int32_t max_rows_per_seq;
  int32_t max_kv_tokens;
  int32_t block_table_stride;
  int32_t n_wanted;         /* rows whose logits are wanted: most draw the next token, some only report */
  int32_t n_logits;         /* of these, rows whose raw logits are part of the answer */
  int32_t n_penalty_loads;  /* sequences whose sampling begins to count tokens */
  int64_t n_penalty_tokens; /* tokens of these sequences */
  int64_t n_biases;         /* of all wanted rows */
  bool is_plain;            /* every wanted row is: yk_sample_row_is_plain */
  bool is_timed;            /* every rank's device takes the time of each operation: step_profile.h */
} yk_step_counts;

/* A sequence whose sampling counts tokens: rank 0 fills the sequence's slot of the device's table before it samples.
 * The sequence's tokens follow those of the loads before, among the penalty tokens. */
typedef struct yk_penalty_load {
  int32_t slot;
  int32_t n_prompt, n_tokens; /* prompt first */
} yk_penalty_load;

/* YK_STEP_ARRAYS - A(constant, function, element, part, length, padding), in the order of the block. length: an
 * expression of counts c. The padding is that of decode steps: rows and sequences that pad belong to nobody, write no K
 * and V and are read by nobody (decode_graph.h). */
#define YK_STEP_ARRAYS(A)                                                                                              \
  A(TOKEN_IDS, token_ids, int32_t, RANKS, c->n_tokens, ZERO)                                                           \
  A(POSITIONS, positions, int32_t, RANKS, c->n_tokens, ZERO)                                                           \
  A(KV_SLOTS, kv_slots, int32_t, RANKS, c->n_tokens, NONE)                                                             \
  A(SEQ_OF_ROW, seq_of_row, int32_t, RANKS, c->n_tokens, N_SEQS)                                                       \
  A(ROW_STARTS, row_starts, int32_t, RANKS, (int64_t)c->n_seqs + 1, N_SEQS)                                            \
  A(KV_TOKENS, kv_tokens, int32_t, RANKS, c->n_seqs, ZERO)                                                             \
  A(SEQ_SLOTS, seq_slots, int32_t, RANKS, c->n_seqs, NONE)                                                             \
  A(BLOCK_TABLES, block_tables, int32_t, RANKS, (int64_t)c->n_seqs * c->block_table_stride, ZERO)                      \
  A(WANTED_ROWS, wanted_rows, int32_t, RANKS, c->n_wanted, ZERO)                                                       \
  A(SAMPLING, sampling, yk_sample_row, SAMPLING, c->n_wanted, ZERO)                                                    \
  A(PENALTY_LOADS, penalty_loads, yk_penalty_load, SAMPLING, c->n_penalty_loads, ZERO)                                 \
  A(BIASES, biases, yk_logit_bias, LATE, c->n_biases, ZERO)                                                            \
  A(PENALTY_TOKENS, penalty_tokens, int32_t, LATE, c->n_penalty_tokens, ZERO)

typedef enum yk_step_array {
#define YK_CONSTANT(constant, function, element, part, length, padding) YK_STEP_##constant,
  YK_STEP_ARRAYS(YK_CONSTANT)
#undef YK_CONSTANT
      YK_STEP_N_ARRAYS
} yk_step_array;

typedef enum yk_step_part { YK_STEP_RANKS, YK_STEP_FOR_SAMPLING, YK_STEP_FOR_SAMPLING_LATE } yk_step_part;

typedef struct yk_step_layout {
  size_t offset[YK_STEP_N_ARRAYS]; /* of each array in the block, in bytes, aligned for its elements */
  size_t rank_bytes;               /* of the arrays that every rank reads, a multiple of 4 */
  size_t n_bytes;                  /* of the block */
} yk_step_layout;

/* yk_step_array_length - elements of an array. */
int64_t yk_step_array_length(yk_step_array array, const yk_step_counts *counts);

/* yk_step_array_name, yk_step_array_element_bytes, yk_step_array_part - columns of the table. */
const char *yk_step_array_name(yk_step_array array);
size_t yk_step_array_element_bytes(yk_step_array array);
yk_step_part yk_step_array_part(yk_step_array array);

/* yk_step_layout_of - where each array lies. */
yk_step_layout yk_step_layout_of(const yk_step_counts *counts);

/* yk_step_counts_max - the largest step within such limits, without late arrays, which have no limit of their own. */
yk_step_counts yk_step_counts_max(const yk_device_limits *limits);

/* yk_step_pad - copy every array that ranks read from one block into another of more rows, sequences and blocks for
 *   each sequence, and pad it. from and to differ in n_tokens, n_seqs and block_table_stride alone. */
void yk_step_pad(void *to_block, const yk_step_counts *to, const void *from_block, const yk_step_counts *from);

#endif
