#include "grammar/characters.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/id_bits.h"

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

/* Whether the output may end with `at` and continue with the token. */
static bool may_follow(const yk_token_bytes *tokens, yk_cut_character at, int32_t id)
{
  size_t n_bytes;
  const char *bytes = yk_token_bytes_of(tokens, id, &n_bytes);
  return yk_cut_character_extend(&at, bytes, n_bytes);
}

/* A token that can follow a whole character and ends with the first byte of another, as its last byte splits it. */
typedef struct beginning {
  const char *bytes;
  size_t n_bytes; /* without the last */
  int32_t id;
  unsigned char lead; /* the last */
} beginning;

static int by_bytes_and_lead(const void *a, const void *b)
{
  const beginning *x = a, *y = b;
  size_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
  int order = memcmp(x->bytes, y->bytes, n);
  if (order == 0) order = (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
  return order ? order : x->lead - y->lead;
}

/* Writes the beginnings to out [cut->n]; returns their number. */
static size_t list_beginnings(const yk_cut_tokens *cut, const yk_token_bytes *tokens, beginning *out)
{
  size_t n = 0;
  for (size_t i = 0; i < cut->n; i++) {
    yk_cut_character at = {0};
    size_t n_bytes;
    const char *bytes = yk_token_bytes_of(tokens, cut->ids[i], &n_bytes);
    if (yk_cut_character_extend(&at, bytes, n_bytes) && at.n_bytes == 1)
      out[n++] = (beginning){bytes, n_bytes - 1, cut->ids[i], at.lead};
  }
  qsort(out, n, sizeof *out, by_bytes_and_lead);
  return n;
}

static bool is_suspect(unsigned char lead)
{
  return lead == 0xE0 || lead == 0xF0;
}

/* The peer of beginnings[i]: the next or the previous entry with the same bytes. */
static int32_t peer_of(const beginning *beginnings, size_t n, size_t i)
{
  for (int step = 1; step >= -1; step -= 2) {
    size_t j = i + (size_t)step; /* before the first: SIZE_MAX */
    if (j < n && beginnings[j].n_bytes == beginnings[i].n_bytes && !is_suspect(beginnings[j].lead) &&
        memcmp(beginnings[j].bytes, beginnings[i].bytes, beginnings[i].n_bytes) == 0)
      return beginnings[j].id;
  }
  return -1;
}

static bool find_suspects(yk_cut_tokens *cut, const yk_token_bytes *tokens)
{
  beginning *beginnings = malloc((cut->n + 1) * sizeof *beginnings);
  if (!beginnings) return false;
  size_t n = list_beginnings(cut, tokens, beginnings);
  cut->suspects = malloc((n + 1) * sizeof *cut->suspects);
  for (size_t i = 0; cut->suspects && i < n; i++)
    if (is_suspect(beginnings[i].lead))
      cut->suspects[cut->n_suspects++] = (yk_suspect_token){beginnings[i].id, peer_of(beginnings, n, i)};
  free(beginnings);
  return cut->suspects != NULL;
}

/* Which tokens may follow depends on the bytes that are missing, and after four first bytes on the first byte. */
static size_t kind_of_end(yk_cut_character at)
{
  if (at.n_bytes == 0) return 0;
  if (at.n_bytes == 1 && at.lead == 0xE0) return 4;
  if (at.n_bytes == 1 && at.lead == 0xED) return 5;
  if (at.n_bytes == 1 && at.lead == 0xF0) return 6;
  if (at.n_bytes == 1 && at.lead == 0xF4) return 7;
  return yk_utf8_sequence_bytes(at.lead) - at.n_bytes;
}

/* Tokens of whole characters may follow the first kind of end alone. */
static void find_followers(yk_cut_tokens *cut, const yk_token_bytes *tokens)
{
  static const yk_cut_character ends[YK_CUT_ENDS] = {{0},       {0xC2, 1}, {0xE1, 1}, {0xF1, 1},
                                                     {0xE0, 1}, {0xED, 1}, {0xF0, 1}, {0xF4, 1}};
  memset(cut->followers, 0xff, cut->n_words * sizeof *cut->followers);
  for (size_t kind = 0; kind < YK_CUT_ENDS; kind++) {
    uint32_t *words = cut->followers + kind * cut->n_words;
    for (size_t i = 0; i < cut->n; i++) {
      yk_id_bits_remove(words, cut->ids[i]);
      if (may_follow(tokens, ends[kind], cut->ids[i])) yk_id_bits_add(words, cut->ids[i]);
    }
  }
}

yk_status yk_cut_tokens_create(const yk_token_bytes *tokens, yk_cut_tokens *out, yk_err *err)
{
  size_t n = list_ids(tokens, NULL), n_words = ((size_t)tokens->n_ids + 31) / 32;
  *out = (yk_cut_tokens){.ids = malloc((n + 1) * sizeof *out->ids),
                         .n = n,
                         .followers = calloc(YK_CUT_ENDS * n_words + 1, sizeof *out->followers),
                         .n_words = n_words};
  bool has_memory = out->ids && out->followers;
  if (has_memory) {
    list_ids(tokens, out->ids);
    has_memory = find_suspects(out, tokens);
  }
  if (!has_memory) {
    yk_cut_tokens_free(out);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu tokens of parts of characters", n);
  }
  find_followers(out, tokens);
  return YK_OK;
}

void yk_cut_tokens_free(yk_cut_tokens *cut)
{
  free(cut->ids);
  free(cut->followers);
  free(cut->suspects);
  *cut = (yk_cut_tokens){0};
}

void yk_cut_tokens_exclude(const yk_cut_tokens *cut, yk_cut_character at, uint32_t *words)
{
  const uint32_t *followers = cut->followers + kind_of_end(at) * cut->n_words;
  for (size_t i = 0; i < cut->n_words; i++) words[i] &= followers[i];
}

bool yk_suspect_token_needs_check(yk_suspect_token token, const uint32_t *words)
{
  return yk_id_bits_have(words, token.id) && (token.peer < 0 || !yk_id_bits_have(words, token.peer));
}
