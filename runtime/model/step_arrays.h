/* step_arrays.h - the table of a step's arrays: element type, length, readers, padding.
 *
 * The step builder, decode graphs, buffer sizes and devices all use this table. A new array needs a row here, code that
 * fills the array, and code that reads it. The arrays are in one flat block, in the order of the table:
 *
 *   | arrays that every rank reads | arrays for sampling, rank 0 only | late arrays, rank 0 only |
 *   0                         rank_bytes                                                n_bytes
 *
 * Every rank uploads the first part with one copy. Late arrays (biases, tokens, masks) may still be filled while the
 * ranks compute (step_late.h). The layout is a function of the counts alone, so counts and block describe the whole
 * step. */
#ifndef YK_MODEL_STEP_ARRAYS_H
#define YK_MODEL_STEP_ARRAYS_H

#include "kernels/device.h"

/* The lengths of the arrays follow from these counts. Every rank has the counts in addition to the arrays. */
typedef struct yk_step_counts {
  int32_t n_tokens; /* rows of the step */
  int32_t n_seqs;   /* sequences that the rows belong to */
  int32_t max_rows_per_seq;
  int32_t max_kv_tokens;
  int32_t block_table_stride;
  int32_t n_wanted;         /* rows whose logits are wanted: most draw the next token, others only report
                             * log-probabilities or logits */
  int32_t n_logits;         /* wanted rows whose raw logits are part of the answer */
  int32_t n_copies;         /* at most YK_STEP_MAX_COPIES */
  int32_t n_hidden;         /* wanted rows of which the answer has the hidden state, and nothing else; if these are all
                             * wanted rows, no rank computes logits */
  int32_t n_penalty_loads;  /* sequences that begin to count tokens for sampling */
  int64_t n_penalty_tokens; /* tokens of these sequences */
  int64_t n_biases;         /* over all wanted rows */
  int64_t n_mask_words;     /* over all wanted rows with a mask */
  bool is_plain;            /* yk_sample_row_is_plain holds for every wanted row */
  bool has_adapters;        /* a row has an adapter */
  bool is_timed;            /* every rank's device records the time of each operation: step_profile.h */
} yk_step_counts;

/* A sequence whose sampling counts tokens: rank 0 fills the sequence's slot of the device's table before sampling. The
 * penalty tokens of the loads are stored one after another. */
typedef struct yk_penalty_load {
  int32_t slot;
  int32_t n_prompt, n_tokens; /* prompt tokens, then output tokens */
} yk_penalty_load;

enum { YK_STEP_MAX_COPIES = 256 };

/* A copy of a part of a sequence's memory, before the first row of the step: the recurrent states of a slot and a KV
 * block, of every layer. -1: none. Copies are done in order. */
typedef struct yk_step_copy {
  int32_t from_slot, to_slot;
  int32_t from_block, to_block;
} yk_step_copy;

/* YK_STEP_ARRAYS - A(constant, function, element, part, length, padding), in the order of the block. length: an
 * expression of counts c. padding: value in padded decode steps. Padding rows and padding sequences write no K and V
 * and no states, and no other row reads them (decode_graph.h). Graphs read the arrays before WANTED_ROWS, whose length
 * differs among the steps of a graph. */
#define YK_STEP_ARRAYS(A)                                                                                              \
  A(TOKEN_IDS, token_ids, int32_t, RANKS, c->n_tokens, ZERO)                                                           \
  A(POSITIONS, positions, int32_t, RANKS, c->n_tokens, ZERO)                                                           \
  A(KV_SLOTS, kv_slots, int32_t, RANKS, c->n_tokens, NONE)                                                             \
  A(SEQ_OF_ROW, seq_of_row, int32_t, RANKS, c->n_tokens, N_SEQS)                                                       \
  A(ROW_STARTS, row_starts, int32_t, RANKS, (int64_t)c->n_seqs + 1, N_SEQS)                                            \
  A(KV_TOKENS, kv_tokens, int32_t, RANKS, c->n_seqs, ZERO)                                                             \
  A(SEQ_SLOTS, seq_slots, int32_t, RANKS, c->n_seqs, NONE)                                                             \
  A(STATE_LOADS, state_loads, int32_t, RANKS, c->n_seqs, NONE)                                                         \
  A(STATE_SAVES, state_saves, int32_t, RANKS, c->n_seqs, NONE)                                                         \
  A(STATE_SAVE_ROWS, state_save_rows, int32_t, RANKS, c->n_seqs, ZERO)                                                 \
  A(BLOCK_TABLES, block_tables, int32_t, RANKS, (int64_t)c->n_seqs * c->block_table_stride, ZERO)                      \
  A(ADAPTERS, adapters, int32_t, RANKS, c->has_adapters ? c->n_tokens : 0, ZERO)                                       \
  A(WANTED_ROWS, wanted_rows, int32_t, RANKS, c->n_wanted, ZERO)                                                       \
  A(COPIES, copies, yk_step_copy, RANKS, c->n_copies, ZERO)                                                            \
  A(SAMPLING, sampling, yk_sample_row, SAMPLING, c->n_wanted, ZERO)                                                    \
  A(HIDDEN_ROWS, hidden_rows, int32_t, SAMPLING, c->n_hidden, ZERO)                                                    \
  A(PENALTY_LOADS, penalty_loads, yk_penalty_load, SAMPLING, c->n_penalty_loads, ZERO)                                 \
  A(BIASES, biases, yk_logit_bias, LATE, c->n_biases, ZERO)                                                            \
  A(PENALTY_TOKENS, penalty_tokens, int32_t, LATE, c->n_penalty_tokens, ZERO)                                          \
  A(MASKS, masks, uint32_t, LATE, c->n_mask_words, ZERO)

typedef enum yk_step_array {
#define YK_CONSTANT(constant, function, element, part, length, padding) YK_STEP_##constant,
  YK_STEP_ARRAYS(YK_CONSTANT)
#undef YK_CONSTANT
      YK_STEP_N_ARRAYS
} yk_step_array;

typedef enum yk_step_part { YK_STEP_RANKS, YK_STEP_FOR_SAMPLING, YK_STEP_FOR_SAMPLING_LATE } yk_step_part;

typedef struct yk_step_layout {
  size_t offset[YK_STEP_N_ARRAYS]; /* offset of each array in the block, in bytes, aligned for its elements */
  size_t rank_bytes;               /* size of the arrays that every rank reads, a multiple of 4 */
  size_t n_bytes;                  /* size of the block */
} yk_step_layout;

/* yk_step_array_length - elements of an array. */
int64_t yk_step_array_length(yk_step_array array, const yk_step_counts *counts);

/* yk_step_array_name, yk_step_array_element_bytes, yk_step_array_part - columns of the table. */
const char *yk_step_array_name(yk_step_array array);
size_t yk_step_array_element_bytes(yk_step_array array);
yk_step_part yk_step_array_part(yk_step_array array);

/* yk_step_layout_of - the offsets of the arrays and the size of the block. */
yk_step_layout yk_step_layout_of(const yk_step_counts *counts);

/* yk_step_counts_max - the largest step within the limits, without late arrays, which are not limited. */
yk_step_counts yk_step_counts_max(const yk_device_limits *limits);

/* yk_step_pad - copy every array that all ranks read from one block into a block with more rows, sequences and
 *   blocks per sequence, and fill the padding. from and to may differ in n_tokens, n_seqs and block_table_stride only,
 *   and have no copies. */
void yk_step_pad(void *to_block, const yk_step_counts *to, const void *from_block, const yk_step_counts *from);

#endif
