#include "engine/loop/step_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* A step that may be in flight. Ranks may use its memory, so larger memory replaces it when the next step is built in
 * its place. */
typedef struct built_step {
  yk_step step;
  yk_step_late late;
  void *larger_block;   /* or NULL */
  float *larger_logits; /* or NULL */
} built_step;

struct yk_step_builder {
  yk_device_limits limits;
  int depth;
  built_step *steps; /* [depth] step number n at n % depth */
  uint64_t n_built;
  built_step *last;                 /* built last */
  size_t block_bytes;               /* of each step's block, after the replacement by a larger block; like the next
                                     * member */
  int64_t logits_capacity;          /* rows of each step's answer.logits */
  yk_step_extras reserved;          /* sum over all sequences */
  yk_sampled *sampled_before;       /* results of the step that was last replaced; swapped with step.answer.sampled */
  const yk_logit_bias **row_biases; /* [max_tokens] of the step's wanted rows, until they are copied to the block */
  yk_sequence **masked;             /* [max_tokens] sequences of the step's wanted rows with a mask, until masks are
                                     * filled */
  const yk_sequence **counted;      /* [max_seqs] sequences that begin to count tokens in this step, until their tokens
                                     * are copied */
};

/* Bytes of the largest block with these extras. The extras' arrays are last, each aligned to at most 8 bytes. */
static size_t block_bytes_for(const yk_device_limits *limits, const yk_step_extras *extras)
{
  yk_step_counts most = yk_step_counts_max(limits);
  most.n_biases = extras->n_biases;
  most.n_penalty_tokens = extras->n_penalty_tokens;
  most.n_mask_words = extras->n_mask_words;
  return yk_step_layout_of(&most).n_bytes;
}

static bool allocate_steps(yk_step_builder *b, int32_t hidden_size)
{
  size_t hidden_bytes = (size_t)b->limits.max_seqs * (size_t)hidden_size * sizeof(float);
  b->steps = calloc((size_t)b->depth, sizeof *b->steps);
  if (!b->steps) return false;
  for (int i = 0; i < b->depth; i++) yk_step_late_init(&b->steps[i].late);
  for (int i = 0; i < b->depth; i++) {
    yk_step *step = &b->steps[i].step;
    step->block = malloc(b->block_bytes);
    step->answer.sampled = calloc((size_t)b->limits.max_tokens, sizeof *step->answer.sampled);
    if (!step->block || !step->answer.sampled) return false;
    if (hidden_size > 0) step->answer.hidden = malloc(hidden_bytes);
    if (hidden_size > 0 && !step->answer.hidden) return false;
  }
  return true;
}

yk_status yk_step_builder_create(const yk_device_limits *limits, int32_t hidden_size, int depth, yk_step_builder **out,
                                 yk_err *err)
{
  size_t max_tokens = (size_t)limits->max_tokens;
  yk_step_builder *b = calloc(1, sizeof *b);
  if (!b) return yk_err_set(err, YK_E_NOMEM, "no memory for steps");
  b->limits = *limits;
  b->depth = depth;
  b->block_bytes = block_bytes_for(limits, &b->reserved);
  b->sampled_before = calloc(max_tokens, sizeof *b->sampled_before);
  b->row_biases = calloc(max_tokens, sizeof *b->row_biases);
  b->masked = calloc(max_tokens, sizeof *b->masked);
  b->counted = calloc((size_t)limits->max_seqs, sizeof *b->counted);
  if (!b->sampled_before || !b->row_biases || !b->masked || !b->counted || !allocate_steps(b, hidden_size)) {
    size_t n_bytes = b->block_bytes;
    yk_step_builder_destroy(b);
    return yk_err_set(err, YK_E_NOMEM, "no memory for steps of %zu bytes", n_bytes);
  }
  *out = b;
  return YK_OK;
}

void yk_step_builder_destroy(yk_step_builder *builder)
{
  if (!builder) return;
  for (int i = 0; builder->steps && i < builder->depth; i++) {
    built_step *built = &builder->steps[i];
    yk_step_late_destroy(&built->late);
    free(built->step.block);
    free(built->step.answer.sampled);
    free(built->step.answer.logits);
    free(built->step.answer.hidden);
    free(built->larger_block);
    free(built->larger_logits);
  }
  free(builder->steps);
  free(builder->sampled_before);
  free(builder->row_biases);
  free(builder->masked);
  free(builder->counted);
  free(builder);
}

/* ---- Memory for extras ------------------------------------------------------------------------------------------- */

static yk_status grow_block(yk_step_builder *b, const yk_step_extras *extras, yk_err *err)
{
  size_t n_bytes = block_bytes_for(&b->limits, extras);
  if (n_bytes <= b->block_bytes) return YK_OK;
  for (int i = 0; i < b->depth; i++) {
    void *block = malloc(n_bytes);
    if (!block) return yk_err_set(err, YK_E_NOMEM, "no memory for steps of %zu bytes", n_bytes);
    free(b->steps[i].larger_block);
    b->steps[i].larger_block = block;
  }
  b->block_bytes = n_bytes;
  return YK_OK;
}

static yk_status grow_logits(yk_step_builder *b, int64_t n_rows, yk_err *err)
{
  int32_t vocab = b->limits.vocab;
  n_rows = yk_min_i64(n_rows, b->limits.max_tokens);
  if (n_rows <= b->logits_capacity) return YK_OK;
  for (int i = 0; i < b->depth; i++) {
    float *logits = malloc((size_t)n_rows * (size_t)vocab * sizeof *logits);
    if (!logits)
      return yk_err_set(err, YK_E_NOMEM, "no memory for %lld rows of %d logits", (long long)n_rows, (int)vocab);
    free(b->steps[i].larger_logits);
    b->steps[i].larger_logits = logits;
  }
  b->logits_capacity = n_rows;
  return YK_OK;
}

yk_status yk_step_builder_reserve(yk_step_builder *builder, const yk_step_extras *extras, yk_err *err)
{
  yk_step_extras all = builder->reserved;
  all.n_biases += extras->n_biases;
  all.n_penalty_tokens += extras->n_penalty_tokens;
  all.n_mask_words += extras->n_mask_words;
  all.n_logits += extras->n_logits;
  YK_TRY(grow_block(builder, &all, err));
  YK_TRY(grow_logits(builder, all.n_logits, err));
  builder->reserved = all;
  return YK_OK;
}

void yk_step_builder_release(yk_step_builder *builder, const yk_step_extras *extras)
{
  builder->reserved.n_biases -= extras->n_biases;
  builder->reserved.n_penalty_tokens -= extras->n_penalty_tokens;
  builder->reserved.n_mask_words -= extras->n_mask_words;
  builder->reserved.n_logits -= extras->n_logits;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

static int32_t n_wanted_of(const yk_scheduled *item)
{
  int64_t end = (int64_t)item->seq->memory.n_computed + item->n_rows;
  return (int32_t)yk_min_i64(yk_max_i64(end - item->seq->wanted_from, 0), item->n_rows);
}

static bool begins_to_count(const yk_scheduled *item)
{
  return n_wanted_of(item) > 0 && item->seq->slot_is_new && item->seq->owner->needs_counts(item->seq);
}

/* Sizes of the step, except biases, masks and logits, which depend on the description of the rows. */
static yk_step_counts measure(const yk_scheduled *items, int32_t n_items, bool is_timed)
{
  yk_step_counts c = {.n_seqs = n_items, .is_timed = is_timed};
  for (int32_t i = 0; i < n_items; i++) {
    int32_t kv_tokens = items[i].seq->memory.n_computed + items[i].n_rows;
    c.n_tokens += items[i].n_rows;
    c.max_rows_per_seq = (int32_t)yk_max_i64(c.max_rows_per_seq, items[i].n_rows);
    c.max_kv_tokens = (int32_t)yk_max_i64(c.max_kv_tokens, kv_tokens);
    c.n_wanted += n_wanted_of(&items[i]);
    c.has_adapters |= items[i].seq->adapter > 0;
    c.n_hidden += items[i].seq->returns_hidden ? n_wanted_of(&items[i]) : 0;
    if (!begins_to_count(&items[i])) continue;
    c.n_penalty_loads++;
    c.n_penalty_tokens += items[i].seq->n_tokens;
  }
  c.block_table_stride = yk_kv_blocks_for(c.max_kv_tokens);
  return c;
}

/* Fill the rows of an item; `row` is its first row. */
static void fill_rows(const yk_step *step, const yk_scheduled *item, int32_t seq_index, int32_t row)
{
  const yk_sequence *seq = item->seq;
  int32_t *token_ids = yk_step_token_ids(step) + row, *positions = yk_step_positions(step) + row;
  int32_t *kv_slots = yk_step_kv_slots(step) + row, *seq_of_row = yk_step_seq_of_row(step) + row;
  for (int32_t i = 0; i < item->n_rows; i++) {
    int32_t position = seq->memory.n_computed + i;
    token_ids[i] = seq->tokens[position];
    positions[i] = position;
    kv_slots[i] = yk_sequence_memory_kv_slot(&seq->memory, position);
    seq_of_row[i] = seq_index;
  }
  int32_t *adapters = yk_step_adapters(step) + row;
  for (int32_t i = 0; i < item->n_rows && step->counts.has_adapters; i++) adapters[i] = seq->adapter;
}

/* Describe the wanted rows of an item; `row` is its first row. n_done: wanted rows of earlier items. */
static void describe_wanted(yk_step_builder *b, const yk_scheduled *item, int32_t row, int32_t n_done)
{
  yk_sequence *seq = item->seq;
  yk_step *step = &b->last->step;
  int32_t n = n_wanted_of(item), first = item->n_rows - n;
  for (int32_t i = 0; i < n; i++) {
    yk_sample_row *sampling = &yk_step_sampling(step)[n_done + i];
    yk_step_wanted_rows(step)[n_done + i] = row + first + i;
    b->row_biases[n_done + i] = seq->owner->describe_row(seq, seq->memory.n_computed + first + i, sampling);
    sampling->first_bias = step->counts.n_biases;
    step->counts.n_biases += sampling->n_biases;
    b->masked[n_done + i] = sampling->has_mask ? seq : NULL;
    sampling->first_mask = step->counts.n_mask_words;
    step->counts.n_mask_words += sampling->has_mask ? yk_mask_words(b->limits.vocab) : 0;
    sampling->logits_row = step->counts.n_logits;
    step->counts.n_logits += sampling->returns_logits;
    step->counts.is_plain &= yk_sample_row_is_plain(sampling);
  }
}

static void begin_to_count(yk_step_builder *b, yk_sequence *seq, int32_t n_done)
{
  yk_step_penalty_loads(&b->last->step)[n_done] = (yk_penalty_load){seq->slot, seq->n_prompt, seq->n_tokens};
  b->counted[n_done] = seq;
  seq->slot_is_new = false;
}

static void fill_items(yk_step_builder *b, const yk_scheduled *items, int32_t n_items)
{
  const yk_step *step = &b->last->step;
  int32_t row = 0, n_wanted = 0, n_loads = 0, n_hidden = 0, stride = step->counts.block_table_stride;
  for (int32_t i = 0; i < n_items; i++) {
    yk_sequence *seq = items[i].seq;
    yk_step_row_starts(step)[i] = row;
    yk_step_kv_tokens(step)[i] = seq->memory.n_computed + items[i].n_rows;
    yk_step_seq_slots(step)[i] = seq->slot;
    yk_step_state_loads(step)[i] = seq->memory.state_load;
    yk_step_state_saves(step)[i] = seq->memory.state_save;
    yk_step_state_save_rows(step)[i] = seq->memory.state_save_rows;
    fill_rows(step, &items[i], i, row);
    yk_sequence_memory_fill_table(&seq->memory, yk_step_block_tables(step) + (size_t)i * (size_t)stride, stride);
    describe_wanted(b, &items[i], row, n_wanted);
    if (begins_to_count(&items[i])) begin_to_count(b, seq, n_loads++);
    if (seq->returns_hidden && n_wanted_of(&items[i]) > 0) yk_step_hidden_rows(step)[n_hidden++] = n_wanted;
    n_wanted += n_wanted_of(&items[i]);
    row += items[i].n_rows;
  }
  yk_step_row_starts(step)[n_items] = row;
}

static void take_larger(built_step *built)
{
  if (built->larger_block) {
    free(built->step.block);
    built->step.block = built->larger_block;
    built->larger_block = NULL;
  }
  if (built->larger_logits) {
    free(built->step.answer.logits);
    built->step.answer.logits = built->larger_logits;
    built->larger_logits = NULL;
  }
}

const yk_step *yk_step_builder_build(yk_step_builder *builder, const yk_scheduled *items, int32_t n_items,
                                     yk_memory_pool *pool, bool is_timed)
{
  built_step *built = &builder->steps[builder->n_built++ % (uint64_t)builder->depth];
  yk_step *step = &built->step;
  builder->last = built;
  take_larger(built);
  yk_sampled *sampled = builder->sampled_before;
  builder->sampled_before = step->answer.sampled;
  step->answer.sampled = sampled;
  step->counts = measure(items, n_items, is_timed);
  const yk_step_copy *copies = yk_memory_pool_take_copies(pool, &step->counts.n_copies);
  step->counts.is_plain = true;
  step->layout = yk_step_layout_of(&step->counts); /* late arrays are last, so the offsets of the other arrays do not
                                                    * depend on biases and masks */
  fill_items(builder, items, n_items);
  memcpy(yk_step_copies(step), copies, (size_t)step->counts.n_copies * sizeof *copies);
  step->layout = yk_step_layout_of(&step->counts);
  bool has_late = step->counts.n_biases > 0 || step->counts.n_penalty_tokens > 0 || step->counts.n_mask_words > 0;
  step->late = has_late ? &built->late : NULL;
  if (has_late) yk_step_late_expect(&built->late);
  return step;
}

/* The masks of wanted rows [begin, end). */
static void fill_masks(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  yk_step_builder *builder = context;
  const yk_step *step = &builder->last->step;
  const yk_sample_row *rows = yk_step_sampling(step);
  for (int64_t i = begin; i < end; i++) {
    yk_sequence *seq = builder->masked[i];
    if (seq) seq->owner->fill_mask(seq, yk_step_masks(step) + rows[i].first_mask, yk_mask_words(builder->limits.vocab));
  }
}

void yk_step_builder_fill_late(yk_step_builder *builder, yk_cpu_pool *mask_threads)
{
  const yk_step *step = &builder->last->step;
  const yk_sample_row *rows = yk_step_sampling(step);
  int32_t *tokens = yk_step_penalty_tokens(step);
  if (!step->late) return;
  for (int32_t i = 0; i < step->counts.n_wanted; i++)
    if (rows[i].n_biases > 0)
      memcpy(yk_step_biases(step) + rows[i].first_bias, builder->row_biases[i],
             (size_t)rows[i].n_biases * sizeof *yk_step_biases(step));
  if (step->counts.n_mask_words > 0) yk_cpu_pool_deal(mask_threads, step->counts.n_wanted, 1, fill_masks, builder);
  for (int32_t i = 0; i < step->counts.n_penalty_loads; i++) {
    const yk_sequence *seq = builder->counted[i];
    memcpy(tokens, seq->tokens, (size_t)seq->n_tokens * sizeof *tokens);
    tokens += seq->n_tokens;
  }
  yk_step_late_fill(&builder->last->late);
}
