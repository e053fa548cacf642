#include "engine/machine/plan_fill.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/units.h"

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

void yk_plan_fill(const yk_model_memory *memory, const yk_settings *s, yk_plan *plan)
{
  int64_t n_blocks = s->limits.n_kv_blocks;
  *plan = (yk_plan){.device = s->device,
                    .n_ranks = s->world.n_ranks,
                    .n_stages = s->world.n_stages,
                    .fits = true,
                    .max_seqs = s->limits.step.max_seqs,
                    .kv_cache_dtype = yk_settings_kv_cache_dtype(s),
                    .kv_tokens = n_blocks * YK_KV_BLOCK_TOKENS};
  for (int rank = 0; rank < s->world.n_ranks; rank++) {
    plan->memory[rank] = (yk_rank_memory){.weight_bytes = memory[rank].weight_bytes,
                                          .kv_bytes = memory[rank].kv_bytes_per_block * n_blocks,
                                          .workspace_bytes = memory[rank].workspace_bytes};
    plan->state_bytes[rank] = memory[rank].state_bytes_per_seq * s->limits.step.max_seqs;
    plan->state_cache_bytes[rank] = memory[rank].state_bytes_per_seq * s->limits.n_state_entries;
    plan->kv_bytes_per_token[rank] = memory[rank].kv_bytes_per_block / YK_KV_BLOCK_TOKENS;
  }
}

void yk_plan_fill_experts(const yk_model_memory *memory, const yk_settings *s, const yk_experts_config *experts,
                          yk_plan *plan)
{
  plan->n_experts = experts->n_experts;
  plan->expert_parallel = experts->n_experts > 0 && s->limits.expert_parallel;
  for (int rank = 0; rank < s->world.n_ranks && experts->n_experts > 0; rank++) {
    int64_t of_experts = memory[rank].expert_bytes;
    plan->rank_experts[rank] = memory[rank].n_experts;
    plan->expert_bytes[rank] = of_experts;
    plan->active_bytes[rank] =
        memory[rank].weight_bytes - of_experts + of_experts / experts->n_experts * experts->top_k;
  }
}

/* ---- Remarks ----------------------------------------------------------------------------------------------------- */

static void YK_PRINTF(2, 3) remark(yk_plan *plan, const char *fmt, ...)
{
  size_t used = strlen(plan->reason);
  va_list args;
  if (used) used += (size_t)snprintf(plan->reason + used, sizeof plan->reason - used, "; ");
  if (used >= sizeof plan->reason) return;
  va_start(args, fmt);
  vsnprintf(plan->reason + used, sizeof plan->reason - used, fmt, args);
  va_end(args);
}

/* The model has n of `what`. If a stage has more than n ranks, its first n ranks hold one each. */
static void remark_ranks_without(const char *what, int n, yk_plan *plan)
{
  int n_ranks = plan->n_ranks / plan->n_stages;
  const char *of_stage = plan->n_stages > 1 ? " of each stage" : "";
  if (n_ranks == n + 1)
    remark(plan, "rank %d%s holds no %s (the model has %d)", n, of_stage, what, n);
  else if (n_ranks > n)
    remark(plan, "ranks %d to %d%s hold no %s (the model has %d)", n, n_ranks - 1, of_stage, what, n);
}

void yk_plan_note(const yk_model_config *config, const yk_model_memory *memory, int32_t wanted_seqs, yk_plan *plan)
{
  if (plan->max_seqs < wanted_seqs)
    remark(plan, "max_seqs is lowered from %d to %d, whose recurrent states fit", wanted_seqs, plan->max_seqs);
  remark_ranks_without("attention head", config->n_heads, plan);
  if (plan->expert_parallel) remark_ranks_without("expert", config->experts.n_experts, plan);
  int32_t n_unkept = 0; /* of the rank that has most: slices of the others may fit a GEMM */
  for (int rank = 0; rank < plan->n_ranks; rank++)
    n_unkept = memory[rank].n_unkept > n_unkept ? memory[rank].n_unkept : n_unkept;
  if (n_unkept > 0)
    remark(plan, "%d weights are kept as 16 bits: %s have no GEMM for their format", n_unkept,
           plan->device == YK_DEVICE_CUDA ? "GPUs" : "CPU ranks");
  if (memory[0].n_float_inputs > 0)
    remark(plan, "inputs of %d weights stay floats, although the checkpoint requests 8-bit inputs",
           memory[0].n_float_inputs);
}

void yk_plan_report_too_little_memory(const yk_engine_options *o, const yk_model_memory *memory, int64_t total_bytes,
                                      yk_plan *plan)
{
  int64_t fixed = 0, block = 0;
  bool has_states = false;
  char taken[YK_BYTES_TEXT], given[YK_BYTES_TEXT];
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    int64_t states = plan->state_bytes[rank] + plan->state_cache_bytes[rank];
    fixed = yk_max_i64(fixed, memory[rank].weight_bytes + memory[rank].workspace_bytes + states);
    has_states |= plan->state_bytes[rank] > 0;
    block = yk_max_i64(block, memory[rank].kv_bytes_per_block);
  }
  if (o->kv_cache_bytes > 0 && o->kv_cache_bytes < block)
    snprintf(plan->reason, sizeof plan->reason, "kv_cache_bytes: expected at least %s, a block of %d tokens, found %s",
             yk_bytes_format(block, taken), YK_KV_BLOCK_TOKENS, yk_bytes_format(o->kv_cache_bytes, given));
  else
    snprintf(plan->reason, sizeof plan->reason,
             "weights%s and workspace take %s on the largest rank and leave no room for KV in %s a rank",
             has_states ? ", recurrent states" : "", yk_bytes_format(fixed, taken),
             yk_bytes_format(total_bytes, given));
}
