#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/component.h"

static const char *const WORD_CHARACTER = "[" YK_REGEX_RUST_WORD "]";

/* Sets the normalised text that is searched for, if it differs from the token's content. */
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

/* State while tokens are read. */
typedef struct reader {
  yk_added_tokens *added;
  const yk_vocab *model;
  size_t capacity; /* of added->tokens */
  int32_t next_id;
} reader;

static yk_status reserve(reader *to, yk_err *err)
{
  if ((size_t)to->added->contents.n_entries < to->capacity) return YK_OK;
  size_t capacity = 2 * to->capacity;
  yk_added_token *tokens = realloc(to->added->tokens, capacity * sizeof *tokens);
  if (!tokens) return yk_err_set(err, YK_E_NOMEM, "no memory for added tokens");
  to->added->tokens = tokens;
  to->capacity = capacity;
  return YK_OK;
}

/* Adds a new token. listed_id -1: any id. */
static yk_status take_new(reader *to, const char *content, size_t n_bytes, int64_t listed_id, yk_added_token token,
                          yk_err *err)
{
  int32_t id = yk_vocab_id(to->model, content, n_bytes);
  bool is_new = id < 0;
  if (is_new) id = to->next_id;
  bool is_free = !is_new || yk_vocab_entry_of(to->model, id) < 0;
  if ((listed_id >= 0 && listed_id != id) || !is_free)
    return yk_err_set(err, YK_E_FORMAT, "\"%.48s\" has id %lld, expected %d, which must be free", content,
                      (long long)(listed_id >= 0 ? listed_id : id), id);
  YK_TRY(reserve(to, err));
  YK_TRY(yk_vocab_add(&to->added->contents, content, n_bytes, id, err));
  to->added->tokens[to->added->contents.n_entries - 1] = token;
  to->next_id += is_new;
  return YK_OK;
}

/* Reads text and flags of a token that is an object; errors begin with place. */
static yk_status read_flags(const char *place, yk_json value, const char **content, size_t *n_bytes,
                            yk_added_token *token, yk_err *err)
{
  YK_TRY(yk_component_text(place, value, "content", content, n_bytes, err));
  YK_TRY(yk_json_get_bool(value, place, "special", false, &token->special, err));
  YK_TRY(yk_json_get_bool(value, place, "single_word", false, &token->single_word, err));
  YK_TRY(yk_json_get_bool(value, place, "lstrip", false, &token->lstrip, err));
  YK_TRY(yk_json_get_bool(value, place, "rstrip", false, &token->rstrip, err));
  token->normalized = !token->special;
  return yk_json_get_bool(value, place, "normalized", false, &token->normalized, err);
}

/* Reads an element of "added_tokens". */
static yk_status read_token(reader *to, const char *file, yk_json value, yk_err *err)
{
  const char *content;
  size_t n_bytes;
  int64_t listed_id = 0;
  yk_added_token token = {0};
  YK_TRY(read_flags(file, value, &content, &n_bytes, &token, err));
  if (n_bytes == 0) return YK_OK; /* an empty token is never found, and takes no id */
  if (!yk_json_is_given(yk_json_get(value, "normalized"))) token.normalized = true;
  YK_TRY(yk_json_get_i64(value, file, "id", true, 0, YK_VOCAB_MAX_ID, &listed_id, err));
  yk_status status = take_new(to, content, n_bytes, listed_id, token, err);
  if (status != YK_OK) yk_err_prefix(err, "%s: added_tokens", file);
  return status;
}

static yk_status read_tokens(reader *to, const char *file, yk_json list, yk_err *err)
{
  size_t i = 0;
  YK_JSON_EACH(token, list)
  {
    if (!yk_json_is(token, YK_JSON_OBJECT))
      return yk_err_set(err, YK_E_FORMAT, "%s: added_tokens[%zu]: expected an object, found %s", file, i,
                        yk_json_type_name(token));
    YK_TRY(read_token(to, file, token, err));
    i++;
  }
  return YK_OK;
}

/* ---- The files in its directory ---------------------------------------------------------------------------------- */

static const char CONFIG[] = "tokenizer_config.json", MAP[] = "special_tokens_map.json";

/* Reads an entry of "added_tokens_decoder". A known token must have the same id, and gets the entry's flags. */
static yk_status read_decoder_entry(reader *to, yk_json key, int64_t id, yk_err *err)
{
  const char *content;
  size_t n_bytes;
  yk_added_token token = {0};
  YK_TRY(read_flags(yk_json_text(key), yk_json_member(key), &content, &n_bytes, &token, err));
  if (n_bytes == 0) return YK_OK;
  int32_t known = yk_vocab_find(&to->added->contents, content, n_bytes);
  if (known < 0) return take_new(to, content, n_bytes, id, token, err);
  if (to->added->contents.entries[known].id != id)
    return yk_err_set(err, YK_E_FORMAT, "\"%.48s\" has id %lld, but %d in tokenizer.json", content, (long long)id,
                      to->added->contents.entries[known].id);
  token.special = token.special || to->added->tokens[known].special; /* a special token stays special */
  to->added->tokens[known] = token;
  return YK_OK;
}

typedef struct decoder_entry {
  int64_t id;
  yk_json key;
} decoder_entry;

static int compare_ids(const void *left, const void *right)
{
  const decoder_entry *a = left, *b = right;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Parses a key of "added_tokens_decoder" as an id. */
static yk_status read_id(yk_json key, int64_t *out, yk_err *err)
{
  const char *text = yk_json_text(key);
  char *end;
  long long id = strtoll(text, &end, 10);
  bool is_number = end != text && *end == '\0' && (size_t)(end - text) == yk_json_length(key);
  *out = id;
  if (is_number && id >= 0 && id <= YK_VOCAB_MAX_ID) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "expected ids from 0 to %d, found \"%.48s\"", YK_VOCAB_MAX_ID, text);
}

static yk_status read_decoder(reader *to, yk_json decoder, yk_err *err)
{
  size_t n = 0;
  if (!yk_json_is_given(decoder)) return YK_OK;
  if (!yk_json_is(decoder, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_json_type_name(decoder));
  decoder_entry *entries = malloc((yk_json_size(decoder) + 1) * sizeof *entries);
  if (!entries) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu tokens", yk_json_size(decoder));
  yk_status status = YK_OK;
  YK_JSON_EACH_KEY(key, decoder)
  {
    entries[n].key = key;
    status = read_id(key, &entries[n++].id, err);
    if (status != YK_OK) break;
  }
  if (status == YK_OK) qsort(entries, n, sizeof *entries, compare_ids);
  for (size_t i = 0; i < n && status == YK_OK; i++) status = read_decoder_entry(to, entries[i].key, entries[i].id, err);
  free(entries);
  return status;
}

/* The object of a special token in a file that describes it by more than its text: under its name, or in a list. */
static yk_json find_object(yk_json file, const char *name, yk_json text)
{
  static const char *const LISTS[] = {"additional_special_tokens", "extra_special_tokens"};
  yk_json named = name ? yk_json_get(file, name) : YK_JSON_NONE;
  if (yk_json_is(named, YK_JSON_OBJECT)) return named;
  if (name) return yk_json_get(yk_json_get(file, LISTS[1]), name);
  for (size_t i = 0; i < 2; i++) {
    YK_JSON_EACH(item, yk_json_get(file, LISTS[i]))
    if (yk_json_same(yk_json_get(item, "content"), text)) return item;
  }
  return YK_JSON_NONE;
}

/* Adds a special token that is not an added token yet: it is searched in the raw text, unless a file has flags for
 * it. */
static yk_status read_special(reader *to, const yk_more_tokens *more, const char *name, yk_json text, yk_err *err)
{
  const char *content = yk_json_text(text);
  size_t n_bytes = yk_json_length(text);
  yk_added_token token = {.special = true};
  if (n_bytes == 0 || yk_vocab_find(&to->added->contents, content, n_bytes) >= 0) return YK_OK;
  yk_json in_map = find_object(more->map, name, text), in_config = find_object(more->config, name, text);
  bool has_map = yk_json_is(in_map, YK_JSON_OBJECT), has_config = yk_json_is(in_config, YK_JSON_OBJECT);
  yk_status status = YK_OK;
  if (has_map || has_config)
    status = read_flags(name ? name : "a special token", has_map ? in_map : in_config, &content, &n_bytes, &token, err);
  token.special = true;
  if (status == YK_OK) status = take_new(to, yk_json_text(text), yk_json_length(text), -1, token, err);
  if (status != YK_OK) yk_err_prefix(err, "%s", has_map ? MAP : CONFIG);
  return status;
}

static yk_status read_specials(reader *to, const yk_more_tokens *more, yk_err *err)
{
  YK_JSON_EACH_KEY(key, more->special)
  {
    yk_json value = yk_json_member(key);
    if (yk_json_is(value, YK_JSON_STRING)) YK_TRY(read_special(to, more, yk_json_text(key), value, err));
  }
  YK_JSON_EACH(text, yk_json_get(more->special, "additional_special_tokens"))
  YK_TRY(read_special(to, more, NULL, text, err));
  return YK_OK;
}

/* ---- Building and searching -------------------------------------------------------------------------------------- */

/* Puts the text of each token into the trie in which it is searched. */
static yk_status finish(yk_added_tokens *added, const char *file, const yk_normalizer *normalizer, yk_err *err)
{
  for (int32_t i = 0; i < added->contents.n_entries; i++) {
    yk_added_token *token = &added->tokens[i];
    size_t n_bytes;
    const char *content = yk_vocab_text(&added->contents, i, &n_bytes);
    if (token->single_word && !added->word)
      YK_TRY(yk_regex_compile(file, WORD_CHARACTER, strlen(WORD_CHARACTER), false, &added->word, err));
    if (token->normalized) YK_TRY(set_normal_form(token, content, n_bytes, normalizer, err));
    if (token->normal_form)
      YK_TRY(yk_trie_add(&added->normalized, token->normal_form, token->normal_form_bytes, i, err));
    else
      YK_TRY(yk_trie_add(token->normalized ? &added->normalized : &added->raw, content, n_bytes, i, err));
  }
  return YK_OK;
}

/* Special tokens are identified by their text. A token with a normal form is therefore not skipped (unless the normal
 * form is another special token's text), as in the public implementation since version 0.23. */
static void mark_skipped(yk_added_tokens *added)
{
  for (int32_t i = 0; i < added->contents.n_entries; i++) {
    yk_added_token *token = &added->tokens[i];
    int32_t known =
        token->normal_form ? yk_vocab_find(&added->contents, token->normal_form, token->normal_form_bytes) : i;
    token->skipped = known >= 0 && added->tokens[known].special;
  }
}

static yk_status read_all(reader *to, const char *file, yk_json value, const yk_more_tokens *more, yk_err *err)
{
  to->added->tokens = calloc(to->capacity, sizeof *to->added->tokens);
  if (!to->added->tokens) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for added_tokens", file);
  YK_TRY(read_tokens(to, file, value, err));
  yk_status status = read_decoder(to, yk_json_get(more->config, "added_tokens_decoder"), err);
  if (status != YK_OK) yk_err_prefix(err, "%s: added_tokens_decoder", CONFIG);
  return status == YK_OK ? read_specials(to, more, err) : status;
}

yk_status yk_added_tokens_parse(yk_added_tokens *added, const char *file, yk_json value, const yk_more_tokens *more,
                                const yk_vocab *model, const yk_normalizer *normalizer, yk_err *err)
{
  *added = (yk_added_tokens){0};
  bool none = !yk_json_is_given(value);
  if (!none && !yk_json_is(value, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: added_tokens: expected an array, found %s", file,
                      yk_json_type_name(value));
  reader to = {added, model, yk_json_size(value) + 1, model->n_entries};
  YK_TRY(yk_vocab_init(&added->contents, yk_json_size(value), err));
  yk_status status = read_all(&to, file, value, more, err);
  if (status == YK_OK && (status = finish(added, file, normalizer, err)) != YK_OK)
    yk_err_prefix(err, "%s: added_tokens", file);
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

/* Whether neither neighbouring character of [begin, end) belongs to a word. */
static yk_status stands_alone(const yk_added_tokens *added, const char *text, size_t n_bytes, size_t begin, size_t end,
                              bool *alone, yk_err *err)
{
  yk_spans matches = {0};
  yk_status status = YK_OK;
  *alone = true;
  if (begin > 0) {
    size_t before = yk_utf8_character_begin(text, begin);
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
    size_t begin = yk_utf8_character_begin(text, end);
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

/* The first match at or after from that contains no byte of a plain span; the longest match at its position. *next:
 * number of spans that end before the search. Returns as yk_trie_find does. */
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

/* The search continues right after a match, even if the match was rejected or took white space along. A token in that
 * white space counts again, unless it strips to its left: such a token has no character left. The public implementation
 * does the same. */
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
    /* white space up to done is taken */
    if (token->rstrip) end = white_space_after(text, n_bytes, end > done ? end : done);
    if (done < first) yk_pieces_append(out, (yk_piece){offset + done, first - done, -1, at_start && done == 0});
    if (first < end)
      yk_pieces_append(out, (yk_piece){offset + first, end - first, added->contents.entries[index].id, false});
    done = end;
  }
  yk_pieces_append(out, (yk_piece){offset + done, n_bytes - done, -1, at_start && done == 0});
  return YK_OK;
}
