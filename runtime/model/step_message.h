/* step_message.h - a step as one message from process 0 to the other processes.
 *
 *   | yk_step_head: version, counts | the block's first rank_bytes |
 *
 * The arrays for sampling are not part of the message. If the rank that samples is in another process, these arrays
 * follow in a separate message (engine/machine/remote_sampling.h); all other ranks read only the counts and the first
 * part of the block. Numbers are in the host's byte order, which is the same in all processes of a run. */
#ifndef YK_MODEL_STEP_MESSAGE_H
#define YK_MODEL_STEP_MESSAGE_H

#include "model/step.h"

enum { YK_STEP_MESSAGE_VERSION = 5 };

/* yk_step_counts in types of fixed size, without padding. */
typedef struct yk_step_head {
  uint32_t version;
  int32_t n_tokens, n_seqs, max_rows_per_seq, max_kv_tokens, block_table_stride, n_wanted, n_logits, n_hidden;
  int32_t n_penalty_loads, n_copies;
  uint8_t is_plain, is_timed, has_adapters, reserved[1];
  int64_t n_penalty_tokens, n_biases, n_mask_words;
} yk_step_head;

_Static_assert(sizeof(yk_step_head) == 72, "the head has no padding");

/* yk_step_head_of - the head of a step's message. The body is step->block [step->layout.rank_bytes]. */
yk_step_head yk_step_head_of(const yk_step_counts *counts);

/* yk_step_message_read - a step of a message [n_bytes], 8-byte aligned. The step's block points into the message, and
 *   only its first rank_bytes exist. The step has no answer and no late arrays.
 *   Errors: YK_E_COMM: a different version, a count beyond the limits, or a size that does not match the counts. */
yk_status yk_step_message_read(void *message, size_t n_bytes, const yk_device_limits *limits, yk_step *out,
                               yk_err *err);

#endif
