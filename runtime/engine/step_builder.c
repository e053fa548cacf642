#include "engine/step_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct yk_step_builder {
  yk_step step;
  int32_t *words;
  yk_sample_row *sampling;
  yk_sampled *sampled, *sampled_before; /* of the step at hand and of the one before, in turns */
  yk_penalty_load *penalty_loads;
};

yk_status yk_step_builder_create(const yk_device_limits *limits, yk_step_builder **out, yk_err *err)
{
  size_t max_tokens = (size_t)limits->max_tokens;
  size_t n_words =
      yk_step_words_max(limits->max_tokens, limits->max_seqs, yk_sequence_blocks_for(limits->max_model_tokens));
  yk_step_builder *b = calloc(1, sizeof *b);
  if (b) {
    b->words = malloc(n_words * sizeof *b->words);
    b->sampling = calloc(max_tokens, sizeof *b->sampling);
    b->sampled = calloc(max_tokens, sizeof *b->sampled);
    b->sampled_before = calloc(max_tokens, sizeof *b->sampled);
    b->penalty_loads = calloc((size_t)limits->max_seqs, sizeof *b->penalty_loads);
  }
  if (!b || !b->words || !b->sampling || !b->sampled || !b->sampled_before || !b->penalty_loads) {
    yk_step_builder_destroy(b);
    return yk_err_set(err, YK_E_NOMEM, "no memory for steps of %zu words", n_words);
  }
  *out = b;
  return YK_OK;
}

void yk_step_builder_destroy(yk_step_builder *builder)
{
  if (!builder) return;
  free(builder->words);
  free(builder->sampling);
  free(builder->sampled);
  free(builder->sampled_before);
  free(builder->penalty_loads);
  free(builder);
}

/* Sizes of the step: everything that the layout of words depends on. */
static yk_batch measure(const yk_scheduled *items, int32_t n_items)
{
  yk_batch batch = {.n_seqs = n_items};
  for (int32_t i = 0; i < n_items; i++) {
    int32_t kv_tokens = items[i].seq->n_computed + items[i].n_rows;
    batch.n_tokens += items[i].n_rows;
    if (items[i].n_rows > batch.max_rows_per_seq) batch.max_rows_per_seq = items[i].n_rows;
    if (kv_tokens > batch.max_kv_tokens) batch.max_kv_tokens = kv_tokens;
  }
  batch.block_table_stride = yk_sequence_blocks_for(batch.max_kv_tokens);
  return batch;
}

static void fill_rows(const yk_scheduled *item, int32_t seq_index, int32_t *token_ids, int32_t *positions,
                      int32_t *kv_slots, int32_t *seq_of_row)
{
  const yk_sequence *seq = item->seq;
  for (int32_t i = 0; i < item->n_rows; i++) {
    int32_t position = seq->n_computed + i;
    token_ids[i] = seq->tokens[position];
    positions[i] = position;
    kv_slots[i] = seq->blocks[position / YK_KV_BLOCK_TOKENS] * YK_KV_BLOCK_TOKENS + position % YK_KV_BLOCK_TOKENS;
    seq_of_row[i] = seq_index;
  }
}

/* Blocks that the window has left behind may still be loaded, though no row sees them: the first block that is left
 * stands in for them, since what another sequence's block holds must not get near this one. Entries past the last are
 * not read. */
static void fill_table(const yk_sequence *seq, int32_t *table, int32_t stride)
{
  int32_t n = (int32_t)yk_min_i64(seq->n_blocks, stride);
  memcpy(table, seq->blocks, (size_t)n * sizeof *table);
  memset(table + n, 0, (size_t)(stride - n) * sizeof *table);
  for (int32_t i = 0; i < seq->n_left_behind; i++) table[i] = seq->blocks[seq->n_left_behind];
}

/* Rows of an item whose logits are wanted; returns how many. row: the item's first. */
static int32_t describe_wanted(const yk_scheduled *item, int32_t row, int32_t *rows, yk_sample_row *sampling)
{
  const yk_sequence *seq = item->seq;
  int32_t n = 0;
  for (int32_t i = 0; i < item->n_rows; i++) {
    int32_t position = seq->n_computed + i;
    if (position < seq->wanted_from) continue;
    rows[n] = row + i;
    seq->owner->describe_row(seq, position, &sampling[n++]);
  }
  return n;
}

static bool are_plain(const yk_sample_row *rows, int32_t n)
{
  for (int32_t i = 0; i < n; i++)
    if (!yk_sample_row_is_plain(&rows[i])) return false;
  return true;
}

const yk_step *yk_step_builder_build(yk_step_builder *builder, const yk_scheduled *items, int32_t n_items,
                                     bool is_timed)
{
  yk_batch batch = measure(items, n_items);
  int32_t *token_ids = builder->words, *positions = token_ids + batch.n_tokens, *kv_slots = positions + batch.n_tokens;
  int32_t *seq_of_row = kv_slots + batch.n_tokens, *row_starts = seq_of_row + batch.n_tokens;
  int32_t *kv_tokens = row_starts + n_items + 1, *block_tables = kv_tokens + n_items;
  int32_t *wanted_rows = block_tables + (size_t)n_items * (size_t)batch.block_table_stride;

  int32_t row = 0, n_wanted = 0, n_loads = 0;
  for (int32_t i = 0; i < n_items; i++) {
    yk_sequence *seq = items[i].seq;
    row_starts[i] = row;
    kv_tokens[i] = seq->n_computed + items[i].n_rows;
    fill_rows(&items[i], i, token_ids + row, positions + row, kv_slots + row, seq_of_row + row);
    fill_table(seq, block_tables + (size_t)i * (size_t)batch.block_table_stride, batch.block_table_stride);
    int32_t n = describe_wanted(&items[i], row, wanted_rows + n_wanted, builder->sampling + n_wanted);
    if (n > 0 && seq->slot_is_new && seq->owner->needs_counts(seq)) {
      builder->penalty_loads[n_loads++] = (yk_penalty_load){seq->slot, seq->tokens, seq->n_prompt, seq->n_tokens};
      seq->slot_is_new = false;
    }
    n_wanted += n;
    row += items[i].n_rows;
  }
  row_starts[n_items] = row;

  yk_sampled *sampled = builder->sampled_before;
  builder->sampled_before = builder->sampled;
  builder->sampled = sampled;
  batch.token_ids = token_ids;
  batch.positions = positions;
  batch.kv_slots = kv_slots;
  batch.seq_of_row = seq_of_row;
  batch.row_starts = row_starts;
  batch.kv_tokens = kv_tokens;
  batch.block_tables = block_tables;
  builder->step = (yk_step){.batch = batch,
                            .n_wanted = n_wanted,
                            .wanted_rows = wanted_rows,
                            .words = builder->words,
                            .n_words = (size_t)(wanted_rows + n_wanted - builder->words),
                            .sampling = builder->sampling,
                            .is_plain = are_plain(builder->sampling, n_wanted),
                            .sampled = sampled,
                            .penalty_loads = builder->penalty_loads,
                            .n_penalty_loads = n_loads,
                            .is_timed = is_timed};
  return &builder->step;
}
