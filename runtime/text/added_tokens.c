#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "text/component.h"
#include "text/utf8.h"

static const char *const WORD_CHARACTER = "[" YK_REGEX_RUST_WORD "]";

/* What normalised text the token is found by, where that is not its content. */
static yk_status set_normal_form(yk_added_token *token, const char *content, size_t n_bytes,
                                 const yk_normalizer *normalizer, yk_err *err)
{
  yk_strbuf form = YK_STRBUF_INIT;
  yk_status status = yk_normalizer_apply(normalizer, content, n_bytes, &form, NULL, err);
  if (status == YK_OK && (form.length != n_bytes || memcmp(form.data, content, n_bytes) != 0)) {
    token->normal_form = form.data;
    token->normal_form_bytes = form.length;
    return YK_OK;
  }
  yk_strbuf_free(&form);
  return status;
}

/* Add a token, and the text that it is found by. */
static yk_status add_token(yk_added_tokens *added, const char *content, size_t n_bytes, int32_t id,
                           yk_added_token token, bool normalized, const yk_normalizer *normalizer, yk_err *err)
{
  YK_TRY(yk_vocab_add(&added->contents, content, n_bytes, id, err));
  int32_t index = added->contents.n_entries - 1;
  if (normalized) YK_TRY(set_normal_form(&token, content, n_bytes, normalizer, err));
  added->tokens[index] = token;
  if (token.normal_form) return yk_trie_add(&added->normalized, token.normal_form, token.normal_form_bytes, index, err);
  return yk_trie_add(normalized ? &added->normalized : &added->raw, content, n_bytes, index, err);
}

static yk_status read_token(yk_added_tokens *added, const char *file, yk_json value, const yk_vocab *model,
                            const yk_normalizer *normalizer, int32_t *next_id, yk_err *err)
{
  const char *content;
  size_t n_bytes;
  int64_t listed_id = 0;
  bool normalized = true;
  yk_added_token token = {0};
  YK_TRY(yk_component_text(file, value, "content", &content, &n_bytes, err));
  if (n_bytes == 0) return YK_OK; /* never found, and numbers nothing */
  YK_TRY(yk_json_get_i64(value, file, "id", true, 0, YK_VOCAB_MAX_ID, &listed_id, err));
  YK_TRY(yk_json_get_bool(value, file, "special", false, &token.special, err));
  YK_TRY(yk_json_get_bool(value, file, "single_word", false, &token.single_word, err));
  YK_TRY(yk_json_get_bool(value, file, "lstrip", false, &token.lstrip, err));
  YK_TRY(yk_json_get_bool(value, file, "rstrip", false, &token.rstrip, err));
  YK_TRY(yk_json_get_bool(value, file, "normalized", false, &normalized, err));
  int32_t id = yk_vocab_id(model, content, n_bytes);
  bool is_new = id < 0;
  if (is_new) id = (*next_id)++;
  if (listed_id != id || (is_new && yk_vocab_entry_of(model, id) >= 0))
    return yk_err_set(err, YK_E_FORMAT, "%s: added_tokens: \"%.48s\" has id %lld, expected %d, which must be free",
                      file, content, (long long)listed_id, id);
  if (token.single_word && !added->word)
    YK_TRY(yk_regex_compile(file, WORD_CHARACTER, strlen(WORD_CHARACTER), false, &added->word, err));
  yk_status status = add_token(added, content, n_bytes, id, token, normalized, normalizer, err);
  if (status != YK_OK) yk_err_prefix(err, "%s: added_tokens", file);
  return status;
}

/* A special token is known by its text. One that has a normal form is therefore not left out (unless that form is
 * another's text): so does the public implementation since version 0.23. */
static void mark_skipped(yk_added_tokens *added)
{
  for (int32_t i = 0; i < added->contents.n_entries; i++) {
    yk_added_token *token = &added->tokens[i];
    int32_t known =
        token->normal_form ? yk_vocab_find(&added->contents, token->normal_form, token->normal_form_bytes) : i;
    token->skipped = known >= 0 && added->tokens[known].special;
  }
}

yk_status yk_added_tokens_parse(yk_added_tokens *added, const char *file, yk_json value, const yk_vocab *model,
                                const yk_normalizer *normalizer, yk_err *err)
{
  *added = (yk_added_tokens){0};
  bool none = !yk_json_is_given(value);
  if (!none && !yk_json_is(value, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: added_tokens: expected an array, found %s", file,
                      yk_json_type_name(value));
  size_t n = none ? 0 : yk_json_size(value);
  YK_TRY(yk_vocab_init(&added->contents, n, err));
  added->tokens = calloc(n + 1, sizeof *added->tokens);
  yk_status status = added->tokens ? YK_OK : yk_err_set(err, YK_E_NOMEM, "%s: no memory for added_tokens", file);
  int32_t next_id = model->n_entries;
  size_t i = 0;
  YK_JSON_EACH(token, value)
  {
    if (!yk_json_is(token, YK_JSON_OBJECT))
      status = yk_err_set(err, YK_E_FORMAT, "%s: added_tokens[%zu]: expected an object, found %s", file, i,
                          yk_json_type_name(token));
    else
      status = read_token(added, file, token, model, normalizer, &next_id, err);
    if (status != YK_OK) break;
    i++;
  }
  if (status == YK_OK)
    mark_skipped(added);
  else
    yk_added_tokens_free(added);
  return status;
}

void yk_added_tokens_free(yk_added_tokens *added)
{
  for (int32_t i = 0; added->tokens && i < added->contents.n_entries; i++) free(added->tokens[i].normal_form);
  free(added->tokens);
  yk_vocab_free(&added->contents);
  yk_trie_free(&added->raw);
  yk_trie_free(&added->normalized);
  yk_regex_free(added->word);
  *added = (yk_added_tokens){0};
}

/* Where the character begins that ends at end > 0. */
static size_t previous_character(const char *text, size_t end)
{
  do end--;
  while (end > 0 && ((unsigned char)text[end] & 0xC0u) == 0x80u);
  return end;
}

/* Whether the characters on both sides of [begin, end) are none of a word. */
static yk_status stands_alone(const yk_added_tokens *added, const char *text, size_t n_bytes, size_t begin, size_t end,
                              bool *alone, yk_err *err)
{
  yk_spans matches = {0};
  yk_status status = YK_OK;
  *alone = true;
  if (begin > 0) {
    size_t before = previous_character(text, begin);
    status = yk_regex_find_all(added->word, text + before, begin - before, &matches, err);
    *alone = matches.n == 0;
  }
  if (status == YK_OK && *alone && end < n_bytes) {
    size_t length = yk_utf8_sequence_bytes((unsigned char)text[end]);
    status = yk_regex_find_all(added->word, text + end, length, &matches, err);
    *alone = matches.n == 0;
  }
  free(matches.items);
  return status;
}

static size_t white_space_before(const char *text, size_t limit, size_t end)
{
  while (end > limit) {
    uint32_t code_point;
    size_t begin = previous_character(text, end);
    if (yk_utf8_decode(text + begin, end - begin, &code_point) == 0 || !yk_utf8_is_white_space(code_point)) break;
    end = begin;
  }
  return end;
}

static size_t white_space_after(const char *text, size_t n_bytes, size_t begin)
{
  while (begin < n_bytes) {
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + begin, n_bytes - begin, &code_point);
    if (length == 0 || !yk_utf8_is_white_space(code_point)) break;
    begin += length;
  }
  return begin;
}

/* The first match at or after from that holds nothing of a plain span; the longest such there. *next counts the spans
 * that end before the search. Returns as yk_trie_find does. */
static int32_t find_outside(const yk_trie *trie, const char *text, size_t n_bytes, size_t from, const yk_spans *plain,
                            size_t *next, size_t *begin, size_t *length)
{
  for (;;) {
    while (*next < plain->n && plain->items[*next].end <= from) (*next)++;
    if (*next == plain->n) return yk_trie_find(trie, text, n_bytes, from, begin, length);
    yk_span span = plain->items[*next];
    int32_t index = from < span.begin ? yk_trie_find(trie, text, span.begin, from, begin, length) : -1;
    if (index >= 0) return index;
    from = span.end;
  }
}

/* The search goes on right behind a match, even where the match was not taken or took more white space along. A token
 * in that white space counts again, unless it is one that strips to its left: that one has nothing left. So does the
 * public implementation. */
yk_status yk_added_tokens_cut(const yk_added_tokens *added, const yk_trie *trie, const char *text, size_t n_bytes,
                              const yk_spans *plain, size_t offset, bool at_start, yk_pieces *out, yk_err *err)
{
  size_t done = 0, begin = 0, length = 0, next = 0;
  for (size_t from = 0;; from = begin + length) {
    int32_t index = find_outside(trie, text, n_bytes, from, plain, &next, &begin, &length);
    if (index < 0) break;
    const yk_added_token *token = &added->tokens[index];
    size_t first = begin, end = begin + length;
    bool alone = true;
    if (token->single_word) YK_TRY(stands_alone(added, text, n_bytes, begin, end, &alone, err));
    if (!alone) continue;
    if (token->lstrip) first = begin > done ? white_space_before(text, done, begin) : done;
    if (token->rstrip) end = white_space_after(text, n_bytes, end > done ? end : done); /* white space up to done */
    if (done < first) yk_pieces_append(out, (yk_piece){offset + done, first - done, -1, at_start && done == 0});
    if (first < end)
      yk_pieces_append(out, (yk_piece){offset + first, end - first, added->contents.entries[index].id, false});
    done = end;
  }
  yk_pieces_append(out, (yk_piece){offset + done, n_bytes - done, -1, at_start && done == 0});
  return YK_OK;
}
