#include "openai/logprob_lists.h"

#include <string.h>

#include "base/json_write.h"

static void separate(yk_strbuf *list)
{
  if (list->length) yk_strbuf_append(list, ",", 1);
}

static int64_t count_characters(const char *text, size_t n_bytes)
{
  int64_t n = 0;
  for (size_t i = 0; i < n_bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
  return n;
}

static void append_name(yk_strbuf *out, bool names_id, int32_t id, const char *text, size_t n_bytes)
{
  if (names_id)
    yk_strbuf_append_fmt(out, "\"token_id:%d\"", id);
  else
    yk_json_append_string(out, text, n_bytes);
}

/* A token with its text at its position. */
typedef struct token {
  int32_t id;
  float logprob;
  const char *text; /* [n_bytes], valid until the walk continues */
  size_t n_bytes;
} token;

/* Advances the walk to the output's token. */
static yk_status walk_to(yk_token_walk *walk, const yk_output *output, token *out, yk_err *err)
{
  *out = (token){.id = output->token_id, .logprob = output->logprob};
  return yk_token_walk_next(walk, out->id, &out->text, &out->n_bytes, err);
}

/* The i-th most probable alternative to the last token. */
static yk_status look_at(yk_token_walk *walk, const yk_output *output, const token *last, int32_t i, token *out,
                         yk_err *err)
{
  *out = *last;
  if (output->top_ids[i] == last->id) return YK_OK;
  out->id = output->top_ids[i];
  out->logprob = output->top_logprobs[i];
  return yk_token_walk_other(walk, out->id, &out->text, &out->n_bytes, err);
}

/* The i-th of the request's listed ids as an alternative to the last token. is_new is false, and nothing else is set,
 * if the id is the last token's or was listed before. */
static yk_status look_at_listed(yk_token_walk *walk, const yk_output *output, const token *last, size_t i, token *out,
                                bool *is_new, yk_err *err)
{
  *is_new = output->listed_ids[i] != last->id;
  for (size_t j = 0; j < i; j++) *is_new &= output->listed_ids[j] != output->listed_ids[i];
  if (!*is_new) return YK_OK;
  *out = (token){.id = output->listed_ids[i], .logprob = output->listed_logprobs[i]};
  return yk_token_walk_other(walk, out->id, &out->text, &out->n_bytes, err);
}

/* ---- Completions ------------------------------------------------------------------------------------------------- */

/* Adds the token's text and its offset. */
static void add_text(yk_logprob_lists *lists, const token *t)
{
  separate(&lists->tokens);
  separate(&lists->logprobs);
  separate(&lists->tops);
  separate(&lists->offsets);
  append_name(&lists->tokens, lists->names_ids, t->id, t->text, t->n_bytes);
  yk_json_append_i64(&lists->offsets, lists->n_characters);
  lists->n_characters += count_characters(t->text, t->n_bytes);
}

enum { MAX_KEYS = YK_MAX_LOGPROBS + YK_MAX_LOGPROB_IDS + 1 };

/* The keys of the object that is being written. */
typedef struct key_set {
  size_t n, begin[MAX_KEYS], end[MAX_KEYS];
} key_set;

static bool has_key(const key_set *keys, const char *json, size_t begin, size_t end)
{
  for (size_t i = 0; i < keys->n; i++)
    if (keys->end[i] - keys->begin[i] == end - begin && memcmp(json + keys->begin[i], json + begin, end - begin) == 0)
      return true;
  return false;
}

/* Adds "text": log-probability unless the text is already a key: of two tokens with the same text, the more probable
 * comes first. */
static void add_top(yk_logprob_lists *lists, key_set *keys, const token *t)
{
  yk_strbuf *tops = &lists->tops;
  size_t length_before = tops->length;
  if (keys->n > 0) yk_strbuf_append(tops, ",", 1);
  size_t begin = tops->length;
  append_name(tops, lists->names_ids, t->id, t->text, t->n_bytes);
  if (tops->failed) return;
  if (has_key(keys, tops->data, begin, tops->length)) {
    tops->length = length_before;
    return;
  }
  keys->begin[keys->n] = begin;
  keys->end[keys->n++] = tops->length;
  yk_strbuf_append(tops, ":", 1);
  yk_json_append_real(tops, (double)t->logprob);
}

static int32_t least(int32_t a, int32_t b)
{
  return a < b ? a : b;
}

yk_status yk_logprob_lists_add(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                               yk_err *err)
{
  key_set keys;
  token last, top;
  bool is_new;
  keys.n = 0;
  YK_TRY(walk_to(walk, output, &last, err));
  add_text(lists, &last);
  yk_json_append_real(&lists->logprobs, (double)output->logprob);
  yk_strbuf_append(&lists->tops, "{", 1);
  for (int32_t i = 0; i < least(output->n_top, n_most); i++) {
    YK_TRY(look_at(walk, output, &last, i, &top, err));
    add_top(lists, &keys, &top);
  }
  add_top(lists, &keys, &last);
  for (size_t i = 0; i < output->n_listed; i++) {
    YK_TRY(look_at_listed(walk, output, &last, i, &top, &is_new, err));
    if (is_new) add_top(lists, &keys, &top);
  }
  yk_strbuf_append(&lists->tops, "}", 1);
  return YK_OK;
}

yk_status yk_logprob_lists_add_first(yk_logprob_lists *lists, yk_token_walk *walk, int32_t id, yk_err *err)
{
  token first;
  YK_TRY(walk_to(walk, &(yk_output){.token_id = id}, &first, err));
  add_text(lists, &first);
  yk_strbuf_append_str(&lists->logprobs, "null");
  yk_strbuf_append_str(&lists->tops, "null");
  return YK_OK;
}

static void append_list(yk_strbuf *out, const char *begin, const yk_strbuf *list)
{
  yk_strbuf_append_str(out, begin);
  yk_strbuf_append(out, list->data, list->length);
}

void yk_logprob_lists_append(const yk_logprob_lists *lists, yk_strbuf *out)
{
  append_list(out, "{\"tokens\":[", &lists->tokens);
  append_list(out, "],\"token_logprobs\":[", &lists->logprobs);
  append_list(out, "],\"top_logprobs\":[", &lists->tops);
  append_list(out, "],\"text_offset\":[", &lists->offsets);
  yk_strbuf_append_str(out, "]}");
}

/* ---- Chat -------------------------------------------------------------------------------------------------------- */

/* Writes "token", "logprob" and "bytes", and leaves the object open. */
static void open_entry(yk_logprob_lists *lists, const token *t)
{
  static const float never = -9999;
  yk_strbuf *out = &lists->tokens;
  yk_strbuf_append_str(out, "{\"token\":");
  append_name(out, lists->names_ids, t->id, t->text, t->n_bytes);
  yk_strbuf_append_str(out, ",\"logprob\":");
  yk_json_append_real(out, (double)(t->logprob > never ? t->logprob : never));
  yk_strbuf_append_str(out, ",\"bytes\":[");
  for (size_t i = 0; i < t->n_bytes; i++) {
    if (i) yk_strbuf_append(out, ",", 1);
    yk_json_append_i64(out, (unsigned char)t->text[i]);
  }
  yk_strbuf_append_str(out, "]");
}

static void add_entry(yk_logprob_lists *lists, bool is_first, const token *t)
{
  if (!is_first) yk_strbuf_append(&lists->tokens, ",", 1);
  open_entry(lists, t);
  yk_strbuf_append(&lists->tokens, "}", 1);
}

/* The token itself precedes the listed ids, as in vLLM. */
static yk_status add_listed_chat(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output,
                                 const token *last, yk_err *err)
{
  token other;
  bool is_new;
  if (output->n_listed > 0) add_entry(lists, output->n_top == 0, last);
  for (size_t i = 0; i < output->n_listed; i++) {
    YK_TRY(look_at_listed(walk, output, last, i, &other, &is_new, err));
    if (is_new) add_entry(lists, false, &other);
  }
  return YK_OK;
}

yk_status yk_logprob_lists_add_chat(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, yk_err *err)
{
  yk_strbuf *out = &lists->tokens;
  token last, top;
  separate(out);
  YK_TRY(walk_to(walk, output, &last, err));
  open_entry(lists, &last);
  yk_strbuf_append_str(out, ",\"top_logprobs\":[");
  for (int32_t i = 0; i < output->n_top; i++) {
    YK_TRY(look_at(walk, output, &last, i, &top, err));
    add_entry(lists, i == 0, &top);
  }
  YK_TRY(add_listed_chat(lists, walk, output, &last, err));
  yk_strbuf_append_str(out, "]}");
  return YK_OK;
}

void yk_logprob_lists_append_chat(const yk_logprob_lists *lists, yk_strbuf *out)
{
  append_list(out, "{\"content\":[", &lists->tokens);
  yk_strbuf_append_str(out, "]}");
}

/* ---- By id ------------------------------------------------------------------------------------------------------- */

/* rank: 0 if unknown. */
static void append_ranked(yk_strbuf *out, const token *t, int32_t rank)
{
  yk_strbuf_append_fmt(out, "\"%d\":{\"logprob\":", t->id);
  yk_json_append_real(out, (double)t->logprob);
  yk_strbuf_append_str(out, ",\"rank\":");
  if (rank)
    yk_json_append_i64(out, rank);
  else
    yk_strbuf_append_str(out, "null");
  yk_strbuf_append_str(out, ",\"decoded_token\":");
  yk_json_append_string(out, t->text, t->n_bytes);
  yk_strbuf_append(out, "}", 1);
}

yk_status yk_logprob_append_by_id(yk_strbuf *out, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                                  yk_err *err)
{
  int32_t rank = 0;
  token last, top;
  for (int32_t i = 0; i < output->n_top; i++)
    if (output->top_ids[i] == output->token_id) rank = i + 1;
  YK_TRY(walk_to(walk, output, &last, err));
  yk_strbuf_append(out, "{", 1);
  append_ranked(out, &last, rank);
  for (int32_t i = 0; i < least(output->n_top, n_most); i++) {
    if (i + 1 == rank) continue;
    yk_strbuf_append(out, ",", 1);
    YK_TRY(look_at(walk, output, &last, i, &top, err));
    append_ranked(out, &top, i + 1);
  }
  yk_strbuf_append(out, "}", 1);
  return YK_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

void yk_logprob_lists_clear(yk_logprob_lists *lists)
{
  yk_strbuf_clear(&lists->tokens);
  yk_strbuf_clear(&lists->logprobs);
  yk_strbuf_clear(&lists->tops);
  yk_strbuf_clear(&lists->offsets);
}

bool yk_logprob_lists_failed(const yk_logprob_lists *lists)
{
  return lists->tokens.failed || lists->logprobs.failed || lists->tops.failed || lists->offsets.failed;
}

void yk_logprob_lists_free(yk_logprob_lists *lists)
{
  yk_strbuf_free(&lists->tokens);
  yk_strbuf_free(&lists->logprobs);
  yk_strbuf_free(&lists->tops);
  yk_strbuf_free(&lists->offsets);
}
