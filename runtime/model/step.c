#include "model/step.h"

yk_batch yk_step_batch(const yk_step *step, const void *copy)
{
  const yk_step_counts *c = &step->counts;
  return (yk_batch){.n_tokens = c->n_tokens,
                    .n_seqs = c->n_seqs,
                    .max_rows_per_seq = c->max_rows_per_seq,
                    .max_kv_tokens = c->max_kv_tokens,
                    .block_table_stride = c->block_table_stride,
                    .token_ids = yk_step_in_copy(step, YK_STEP_TOKEN_IDS, copy),
                    .positions = yk_step_in_copy(step, YK_STEP_POSITIONS, copy),
                    .kv_slots = yk_step_in_copy(step, YK_STEP_KV_SLOTS, copy),
                    .seq_of_row = yk_step_in_copy(step, YK_STEP_SEQ_OF_ROW, copy),
                    .row_starts = yk_step_in_copy(step, YK_STEP_ROW_STARTS, copy),
                    .kv_tokens = yk_step_in_copy(step, YK_STEP_KV_TOKENS, copy),
                    .seq_slots = yk_step_in_copy(step, YK_STEP_SEQ_SLOTS, copy),
                    .state_loads = yk_step_in_copy(step, YK_STEP_STATE_LOADS, copy),
                    .state_saves = yk_step_in_copy(step, YK_STEP_STATE_SAVES, copy),
                    .state_save_rows = yk_step_in_copy(step, YK_STEP_STATE_SAVE_ROWS, copy),
                    .block_tables = yk_step_in_copy(step, YK_STEP_BLOCK_TABLES, copy),
                    .adapters = c->has_adapters ? yk_step_in_copy(step, YK_STEP_ADAPTERS, copy) : NULL};
}
