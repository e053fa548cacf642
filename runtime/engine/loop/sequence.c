#include "engine/loop/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

yk_status yk_sequence_init(yk_sequence *seq, const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt,
                           int32_t capacity, yk_err *err)
{
  *seq = (yk_sequence){.n_prompt = n_prompt,
                       .n_tokens = n_prompt,
                       .capacity = capacity,
                       .wanted_from = n_prompt - 1,
                       .slot = -1,
                       .owner = owner};
  YK_TRY(yk_sequence_memory_init(&seq->memory, capacity, err));
  seq->tokens = malloc((size_t)capacity * sizeof *seq->tokens);
  if (!seq->tokens) {
    yk_sequence_destroy(seq);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a sequence of %d tokens", capacity);
  }
  if (n_prompt > 0) memcpy(seq->tokens, prompt, (size_t)n_prompt * sizeof *prompt);
  return YK_OK;
}

void yk_sequence_destroy(yk_sequence *seq)
{
  yk_sequence_memory_destroy(&seq->memory);
  free(seq->tokens);
  seq->tokens = NULL;
}

int32_t yk_sequence_reuse(yk_sequence *seq, yk_memory_pool *pool)
{
  int32_t most = (int32_t)yk_min_i64(seq->wanted_from, seq->n_tokens - 1);
  return yk_sequence_memory_reuse(&seq->memory, pool, seq->tokens, most);
}

void yk_sequence_truncate(yk_sequence *seq, yk_memory_pool *pool, int32_t n_tokens)
{
  seq->n_tokens = n_tokens;
  yk_sequence_memory_truncate(&seq->memory, pool, n_tokens);
}

void yk_sequence_fork(const yk_sequence *seq, yk_memory_pool *pool, yk_sequence *copy)
{
  memcpy(copy->tokens, seq->tokens, (size_t)seq->n_tokens * sizeof *seq->tokens);
  copy->adapter = seq->adapter;
  copy->n_prompt = copy->n_tokens = seq->n_tokens;
  yk_sequence_memory_fork(&seq->memory, pool, &copy->memory);
}
