#include "grammar/characters.h"

#include <stdlib.h>

#include "base/utf8.h"

bool yk_cut_character_extend(yk_cut_character *at, const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (at->n_bytes == 0)
      *at = (yk_cut_character){byte, 1};
    else if (yk_utf8_may_continue(at->lead, at->n_bytes, byte))
      at->n_bytes++;
    else
      return false;
    size_t needed = yk_utf8_sequence_bytes(at->lead);
    if (needed == 0) return false;
    if (at->n_bytes == needed) *at = (yk_cut_character){0};
  }
  return true;
}

/* Returns the number of tokens for yk_cut_tokens; writes their ids to ids unless it is NULL. */
static size_t list_ids(const yk_token_bytes *tokens, int32_t *ids)
{
  size_t n = 0, n_bytes;
  for (int32_t id = 0; id < tokens->n_ids; id++) {
    const char *bytes = yk_token_bytes_of(tokens, id, &n_bytes);
    if (yk_utf8_valid_bytes(bytes, n_bytes) == n_bytes) continue;
    if (ids) ids[n] = id;
    n++;
  }
  return n;
}

yk_status yk_cut_tokens_create(const yk_token_bytes *tokens, yk_cut_tokens *out, yk_err *err)
{
  size_t n = list_ids(tokens, NULL), n_words = ((size_t)tokens->n_ids + 31) / 32;
  *out = (yk_cut_tokens){.ids = malloc((n + 1) * sizeof *out->ids),
                         .n = n,
                         .mask = calloc(n_words + 1, sizeof *out->mask),
                         .n_words = n_words};
  if (!out->ids || !out->mask) {
    yk_cut_tokens_free(out);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu tokens of parts of characters", n);
  }
  list_ids(tokens, out->ids);
  for (size_t i = 0; i < n; i++) out->mask[out->ids[i] / 32] |= UINT32_C(1) << out->ids[i] % 32;
  return YK_OK;
}

void yk_cut_tokens_free(yk_cut_tokens *cut)
{
  free(cut->ids);
  free(cut->mask);
  *cut = (yk_cut_tokens){0};
}

void yk_cut_tokens_exclude(const yk_cut_tokens *cut, const yk_token_bytes *tokens, yk_cut_character at, uint32_t *words)
{
  for (size_t i = 0; at.n_bytes > 0 && i < cut->n_words; i++) words[i] &= cut->mask[i];
  for (size_t i = 0; i < cut->n; i++) {
    size_t n_bytes;
    int32_t id = cut->ids[i];
    uint32_t bit = UINT32_C(1) << id % 32;
    if (!(words[id / 32] & bit)) continue;
    yk_cut_character next = at;
    const char *bytes = yk_token_bytes_of(tokens, id, &n_bytes);
    if (!yk_cut_character_extend(&next, bytes, n_bytes)) words[id / 32] &= ~bit;
  }
}
