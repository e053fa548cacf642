#include "model/step_message.h"

#include <string.h>

#include "base/checked.h"

yk_step_head yk_step_head_of(const yk_step_counts *c)
{
  return (yk_step_head){.version = YK_STEP_MESSAGE_VERSION,
                        .n_tokens = c->n_tokens,
                        .n_seqs = c->n_seqs,
                        .max_rows_per_seq = c->max_rows_per_seq,
                        .max_kv_tokens = c->max_kv_tokens,
                        .block_table_stride = c->block_table_stride,
                        .n_wanted = c->n_wanted,
                        .n_logits = c->n_logits,
                        .n_hidden = c->n_hidden,
                        .n_penalty_loads = c->n_penalty_loads,
                        .n_copies = c->n_copies,
                        .is_plain = c->is_plain,
                        .is_timed = c->is_timed,
                        .has_adapters = c->has_adapters,
                        .n_penalty_tokens = c->n_penalty_tokens,
                        .n_biases = c->n_biases,
                        .n_mask_words = c->n_mask_words};
}

static yk_step_counts counts_of(const yk_step_head *h)
{
  return (yk_step_counts){.n_tokens = h->n_tokens,
                          .n_seqs = h->n_seqs,
                          .max_rows_per_seq = h->max_rows_per_seq,
                          .max_kv_tokens = h->max_kv_tokens,
                          .block_table_stride = h->block_table_stride,
                          .n_wanted = h->n_wanted,
                          .n_logits = h->n_logits,
                          .n_hidden = h->n_hidden,
                          .n_penalty_loads = h->n_penalty_loads,
                          .n_copies = h->n_copies,
                          .n_penalty_tokens = h->n_penalty_tokens,
                          .n_biases = h->n_biases,
                          .n_mask_words = h->n_mask_words,
                          .is_plain = h->is_plain != 0,
                          .is_timed = h->is_timed != 0,
                          .has_adapters = h->has_adapters != 0};
}

static yk_status check_count(const char *name, int32_t found, int32_t min, int32_t max, yk_err *err)
{
  if (found >= min && found <= max) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "message of a step: %s: expected %d to %d, found %d", name, min, max, found);
}

/* The other counts are lengths of arrays that stay in the process of rank 0. */
static yk_status check_counts(const yk_step_head *h, const yk_device_limits *limits, yk_err *err)
{
  const yk_step_counts most = yk_step_counts_max(limits);
  YK_TRY(check_count("tokens", h->n_tokens, 1, most.n_tokens, err));
  YK_TRY(check_count("sequences", h->n_seqs, 1, most.n_seqs, err));
  YK_TRY(check_count("rows of a sequence", h->max_rows_per_seq, 1, h->n_tokens, err));
  YK_TRY(check_count("KV tokens", h->max_kv_tokens, 1, most.max_kv_tokens, err));
  YK_TRY(check_count("blocks of a sequence", h->block_table_stride, 1, most.block_table_stride, err));
  YK_TRY(check_count("copies", h->n_copies, 0, most.n_copies, err));
  YK_TRY(check_count("rows with adapters", h->has_adapters, 0, most.has_adapters, err));
  YK_TRY(check_count("wanted rows", h->n_wanted, 0, h->n_tokens, err));
  return check_count("hidden states", h->n_hidden, 0, (int32_t)yk_min_i64(h->n_wanted, most.n_hidden), err);
}

yk_status yk_step_message_read(void *message, size_t n_bytes, const yk_device_limits *limits, yk_step *out, yk_err *err)
{
  yk_step_head head;
  if (n_bytes < sizeof head)
    return yk_err_set(err, YK_E_COMM, "message of a step: expected at least %zu bytes, found %zu", sizeof head,
                      n_bytes);
  memcpy(&head, message, sizeof head);
  if (head.version != YK_STEP_MESSAGE_VERSION)
    return yk_err_set(err, YK_E_COMM, "message of a step: expected version %d, found %u", YK_STEP_MESSAGE_VERSION,
                      head.version);
  YK_TRY(check_counts(&head, limits, err));
  yk_step step = {.counts = counts_of(&head), .block = (char *)message + sizeof head};
  step.layout = yk_step_layout_of(&step.counts);
  if (n_bytes - sizeof head != step.layout.rank_bytes)
    return yk_err_set(err, YK_E_COMM, "message of a step: expected %zu bytes of arrays, found %zu",
                      step.layout.rank_bytes, n_bytes - sizeof head);
  *out = step;
  return YK_OK;
}
