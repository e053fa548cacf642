#include "grammar/grammars.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"
#include "grammar/characters.h"
#include "grammar/compiler.h"
#include "grammar/id_bits.h"
#include "grammar/library.h"
#include "text/token_bytes.h"

/* A compiled constraint in the cache. */
typedef struct entry {
  struct entry *next; /* less recently used */
  yk_constraint_kind kind;
  char *text; /* [n_bytes] */
  size_t n_bytes;
  yk_ffi_any grammar;
  int64_t size_bytes; /* of grammar and text */
} entry;

/* Compiler processes: while a slow constraint occupies one, other constraints use the other. */
enum { N_COMPILERS = 2 };

typedef struct compiler_slot {
  yk_grammar_compiler *compiler; /* NULL: not needed yet */
  bool is_busy;
} compiler_slot;

struct yk_grammars {
  yk_grammars_options options; /* with copies */
  /* Guards the library's loading and the slots, but not a busy compiler. Taken before cache_mutex. */
  pthread_mutex_t compiler_mutex;
  pthread_cond_t cv_idle; /* a slot is no longer busy */
  compiler_slot slots[N_COMPILERS];
  yk_strbuf serialised; /* the tokenizer */
  yk_strbuf special;    /* its special tokens, for the compiler */
  /* Written under compiler_mutex until `library` is set, under both mutexes; constant and read without a lock after
   * that. */
  yk_grammar_library *library;
  yk_ffi_any tokenizer;
  yk_token_bytes tokens;
  yk_cut_tokens cut;
  pthread_mutex_t cache_mutex; /* guards the cache */
  entry *cache;                /* most recently used first */
};

struct yk_matcher {
  const yk_grammars *grammars;
  yk_ffi_any object;
  bool needs_no_end_id;
  yk_cut_character cut; /* at the end of the output */
};

/* ---- Life -------------------------------------------------------------------------------------------------------- */

yk_status yk_grammars_create(const yk_grammars_options *options, yk_grammars **out, yk_err *err)
{
  yk_grammars *g = calloc(1, sizeof *g);
  *out = NULL;
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for grammars");
  g->options = *options;
  pthread_mutex_init(&g->compiler_mutex, NULL);
  pthread_cond_init(&g->cv_idle, NULL);
  pthread_mutex_init(&g->cache_mutex, NULL);
  int32_t *end_ids = malloc((options->n_end_ids + 1) * sizeof *end_ids);
  g->options.end_ids = end_ids;
  g->options.python = strdup(options->python);
  g->options.library_dir = options->library_dir ? strdup(options->library_dir) : NULL;
  if (!end_ids || !g->options.python || (options->library_dir && !g->options.library_dir)) {
    yk_grammars_free(g);
    return yk_err_set(err, YK_E_NOMEM, "no memory for grammars");
  }
  if (options->n_end_ids) memcpy(end_ids, options->end_ids, options->n_end_ids * sizeof *end_ids);
  *out = g;
  return YK_OK;
}

static void free_entry(const yk_grammars *g, entry *e)
{
  yk_grammar_release(g->library, &e->grammar);
  free(e->text);
  free(e);
}

void yk_grammars_free(yk_grammars *g)
{
  if (!g) return;
  for (entry *e = g->cache, *next; e; e = next) {
    next = e->next;
    free_entry(g, e);
  }
  for (int i = 0; i < N_COMPILERS; i++) yk_grammar_compiler_free(g->slots[i].compiler);
  if (g->library) yk_grammar_release(g->library, &g->tokenizer);
  yk_grammar_library_free(g->library);
  yk_token_bytes_free(&g->tokens);
  yk_cut_tokens_free(&g->cut);
  yk_strbuf_free(&g->serialised);
  yk_strbuf_free(&g->special);
  pthread_mutex_destroy(&g->compiler_mutex);
  pthread_cond_destroy(&g->cv_idle);
  pthread_mutex_destroy(&g->cache_mutex);
  free((int32_t *)(uintptr_t)g->options.end_ids);
  free((char *)(uintptr_t)g->options.python);
  free((char *)(uintptr_t)g->options.library_dir);
  free(g);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static yk_status make_ids(const yk_grammar_library *library, const int32_t *ids, size_t n, yk_ffi_any *out, yk_err *err)
{
  yk_ffi_any *values = malloc((n + 1) * sizeof *values);
  if (!values) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu ids", n);
  for (size_t i = 0; i < n; i++) values[i] = yk_ffi_int(ids[i]);
  yk_status status = yk_grammar_array(library, values, (int32_t)n, out, err);
  free(values);
  return status;
}

/* The library's bytes of every token. Special tokens, which have no text, get a byte that no text has, and their name,
 * in special: the library never permits a token without bytes, even if a constraint names its id. */
static void list_bytes(const yk_grammars *g, yk_ffi_bytes *bytes, yk_strbuf *special)
{
  size_t n = (size_t)g->tokens.n_ids, n_name, at = 0;
  for (size_t i = 0; i < n; i++) {
    bytes[i].data = yk_token_bytes_of(&g->tokens, (int32_t)i, &bytes[i].size);
    const char *name = yk_tokenizer_token_text(g->options.tokenizer, (int32_t)i, &n_name);
    if (bytes[i].size > 0 || !name) continue;
    bytes[i] = (yk_ffi_bytes){NULL, n_name + 1}; /* NULL: filled below, when special no longer moves */
    yk_strbuf_append(special, "\xff", 1);
    yk_strbuf_append(special, name, n_name);
  }
  for (size_t i = 0; i < n && !special->failed; i++) {
    if (bytes[i].data) continue;
    bytes[i].data = special->data + at;
    at += bytes[i].size;
  }
}

static yk_status make_vocabulary(const yk_grammars *g, const yk_grammar_library *library, yk_ffi_any *out, yk_err *err)
{
  size_t n = (size_t)g->tokens.n_ids;
  yk_ffi_any *values = malloc((n + 1) * sizeof *values);
  yk_ffi_bytes *bytes = malloc((n + 1) * sizeof *bytes);
  yk_strbuf special = YK_STRBUF_INIT;
  if (values && bytes) list_bytes(g, bytes, &special);
  bool ok = values && bytes && !special.failed;
  for (size_t i = 0; ok && i < n; i++) values[i] = yk_ffi_bytes_of(&bytes[i]);
  yk_status status = ok ? yk_grammar_array(library, values, g->tokens.n_ids, out, err)
                        : yk_err_set(err, YK_E_NOMEM, "no memory for a vocabulary of %zu ids", n);
  yk_strbuf_free(&special);
  free(values);
  free(bytes);
  return status;
}

static void name_special(yk_grammars *g)
{
  size_t n_bytes, n_name;
  yk_strbuf *out = &g->special;
  yk_strbuf_append_str(out, "{");
  for (int32_t id = 0; id < g->tokens.n_ids; id++) {
    yk_token_bytes_of(&g->tokens, id, &n_bytes);
    const char *name = yk_tokenizer_token_text(g->options.tokenizer, id, &n_name);
    if (n_bytes > 0 || !name || n_name == 0) continue;
    if (out->length > 1) yk_strbuf_append_str(out, ", ");
    yk_json_append_string(out, name, n_name);
    yk_strbuf_append_fmt(out, ": %d", id);
  }
  yk_strbuf_append_str(out, "}");
}

static yk_status make_tokenizer(yk_grammars *g, const yk_grammar_library *library, yk_err *err)
{
  enum { RAW_BYTES = 0 };
  const yk_grammars_options *o = &g->options;
  yk_ffi_any vocabulary = yk_ffi_none(), ends = yk_ffi_none(), text = yk_ffi_none();
  YK_TRY(yk_token_bytes_create(o->tokenizer, o->n_ids, &g->tokens, err));
  yk_status status = yk_cut_tokens_create(&g->tokens, &g->cut, err);
  if (status == YK_OK) status = make_vocabulary(g, library, &vocabulary, err);
  if (status == YK_OK) status = make_ids(library, o->end_ids, o->n_end_ids, &ends, err);
  yk_ffi_any args[] = {vocabulary, yk_ffi_int(RAW_BYTES), yk_ffi_int(o->n_ids), ends, yk_ffi_bool(false)};
  if (status == YK_OK) status = yk_grammar_call(library, YK_TOKENIZER_NEW, args, 5, &g->tokenizer, err);
  if (status == YK_OK) status = yk_grammar_call(library, YK_TOKENIZER_SERIALIZE, &g->tokenizer, 1, &text, err);
  if (status == YK_OK) status = yk_grammar_append_text(&text, &g->serialised, err);
  name_special(g);
  if (status == YK_OK && (g->serialised.failed || g->special.failed))
    status = yk_err_set(err, YK_E_NOMEM, "no memory for a tokenizer");
  yk_ffi_any *scratch[] = {&vocabulary, &ends, &text};
  for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) yk_grammar_release(library, scratch[i]);
  return status;
}

/* Under compiler_mutex. A failure leaves no state, so that the next constraint starts the compiler again. */
static yk_status load(yk_grammars *g, yk_err *err)
{
  yk_grammar_library *library;
  if (g->library) return YK_OK;
  YK_TRY(yk_grammar_library_load(g->options.library_dir, &library, err));
  yk_status status = make_tokenizer(g, library, err);
  if (status == YK_OK) {
    pthread_mutex_lock(&g->cache_mutex);
    g->library = library;
    pthread_mutex_unlock(&g->cache_mutex);
    return YK_OK;
  }
  yk_grammar_release(library, &g->tokenizer);
  yk_token_bytes_free(&g->tokens);
  yk_cut_tokens_free(&g->cut);
  yk_strbuf_free(&g->serialised);
  yk_strbuf_free(&g->special);
  yk_grammar_library_free(library);
  return status;
}

/* ---- Compilers --------------------------------------------------------------------------------------------------- */

/* Under compiler_mutex. Prefers a slot with a running process. */
static compiler_slot *idle_slot(yk_grammars *g)
{
  compiler_slot *idle = NULL;
  for (int i = 0; i < N_COMPILERS; i++)
    if (!g->slots[i].is_busy && (!idle || !idle->compiler)) idle = &g->slots[i];
  return idle;
}

static yk_status create_compiler(yk_grammars *g, compiler_slot *slot, yk_err *err)
{
  const yk_grammar_compiler_options options = {.python = g->options.python,
                                               .ffi_file = yk_grammar_library_file(g->library, 0),
                                               .library_file = yk_grammar_library_file(g->library, 1),
                                               .tokenizer = g->serialised.data,
                                               .special = g->special.data,
                                               .time_limit_s = g->options.time_limit_s,
                                               .memory_limit_bytes = g->options.memory_limit_bytes};
  return slot->compiler ? YK_OK : yk_grammar_compiler_create(&options, &slot->compiler, err);
}

/* Loads the library, and waits for an idle compiler. */
static yk_status take_compiler(yk_grammars *g, compiler_slot **out, yk_err *err)
{
  pthread_mutex_lock(&g->compiler_mutex);
  yk_status status = load(g, err);
  while (status == YK_OK && !(*out = idle_slot(g))) pthread_cond_wait(&g->cv_idle, &g->compiler_mutex);
  if (status == YK_OK) status = create_compiler(g, *out, err);
  if (status == YK_OK) (*out)->is_busy = true;
  pthread_mutex_unlock(&g->compiler_mutex);
  return status;
}

static void give_compiler_back(yk_grammars *g, compiler_slot *slot)
{
  pthread_mutex_lock(&g->compiler_mutex);
  slot->is_busy = false;
  pthread_cond_signal(&g->cv_idle);
  pthread_mutex_unlock(&g->compiler_mutex);
}

/* ---- Cache ------------------------------------------------------------------------------------------------------- */

/* Under cache_mutex: the entry of a constraint, moved to the front; NULL: none. */
static entry *find(yk_grammars *g, yk_constraint_kind kind, const char *text, size_t n_bytes)
{
  for (entry **at = &g->cache; *at; at = &(*at)->next) {
    entry *e = *at;
    if (e->kind != kind || e->n_bytes != n_bytes || (n_bytes && memcmp(e->text, text, n_bytes) != 0)) continue;
    *at = e->next;
    e->next = g->cache;
    g->cache = e;
    return e;
  }
  return NULL;
}

/* Under cache_mutex. The most recently used constraint is never evicted. Matchers own the data that they use. */
static void drop_oldest(yk_grammars *g)
{
  int64_t total_bytes = 0;
  for (entry **at = &g->cache; *at;) {
    entry *e = *at;
    total_bytes += e->size_bytes;
    if (e == g->cache || total_bytes <= g->options.cache_bytes) {
      at = &e->next;
    } else {
      total_bytes -= e->size_bytes;
      *at = e->next;
      free_entry(g, e);
    }
  }
}

static yk_status make_matcher(const yk_grammars *g, const entry *e, const int32_t *end_ids, size_t n_end_ids,
                              yk_matcher **out, yk_err *err)
{
  yk_matcher *matcher = calloc(1, sizeof *matcher);
  yk_ffi_any ends = yk_ffi_none();
  if (!matcher) return yk_err_set(err, YK_E_NOMEM, "no memory for a matcher");
  matcher->grammars = g;
  matcher->needs_no_end_id = n_end_ids == 0;
  yk_status status = n_end_ids ? make_ids(g->library, end_ids, n_end_ids, &ends, err) : YK_OK;
  yk_ffi_any args[] = {e->grammar, ends, yk_ffi_bool(matcher->needs_no_end_id), yk_ffi_int(0), yk_ffi_none()};
  if (status == YK_OK) status = yk_grammar_call(g->library, YK_MATCHER_NEW, args, 5, &matcher->object, err);
  yk_grammar_release(g->library, &ends);
  if (status == YK_OK)
    *out = matcher;
  else
    free(matcher);
  return status;
}

/* *found: whether the constraint is cached; the matcher is made under the mutex, as an entry may be dropped. */
static yk_status match_cached(yk_grammars *g, yk_constraint_kind kind, const char *text, size_t n_bytes,
                              const int32_t *end_ids, size_t n_end_ids, bool *found, yk_matcher **out, yk_err *err)
{
  pthread_mutex_lock(&g->cache_mutex);
  const entry *e = find(g, kind, text, n_bytes);
  *found = e != NULL;
  yk_status status = e ? make_matcher(g, e, end_ids, n_end_ids, out, err) : YK_OK;
  pthread_mutex_unlock(&g->cache_mutex);
  return status;
}

static yk_status add(yk_grammars *g, yk_constraint_kind kind, const char *text, size_t n_bytes, const yk_strbuf *form,
                     yk_err *err)
{
  entry *e = calloc(1, sizeof *e);
  char *copy = malloc(n_bytes + 1);
  yk_ffi_any size = yk_ffi_none(), args[] = {yk_ffi_text(form->data), g->tokenizer};
  yk_status status = e && copy ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a grammar");
  if (status == YK_OK) status = yk_grammar_call(g->library, YK_COMPILED_READ, args, 2, &e->grammar, err);
  if (status == YK_OK) status = yk_grammar_call(g->library, YK_COMPILED_BYTES, &e->grammar, 1, &size, err);
  if (status != YK_OK) {
    if (e) yk_grammar_release(g->library, &e->grammar);
    free(copy);
    free(e);
    return status;
  }
  if (n_bytes) memcpy(copy, text, n_bytes);
  e->kind = kind;
  e->text = copy;
  e->n_bytes = n_bytes;
  e->size_bytes = size.integer + (int64_t)n_bytes;
  pthread_mutex_lock(&g->cache_mutex);
  if (find(g, kind, text, n_bytes)) {
    free_entry(g, e); /* another thread has compiled the same constraint */
  } else {
    e->next = g->cache;
    g->cache = e;
    drop_oldest(g);
  }
  pthread_mutex_unlock(&g->cache_mutex);
  return YK_OK;
}

/* Another thread may have compiled the same constraint meanwhile. */
static yk_status compile(yk_grammars *g, yk_constraint_kind kind, const char *text, size_t n_bytes, yk_err *err)
{
  static const char *const names[] = {[YK_CONSTRAINT_JSON_OBJECT] = "json_object",
                                      [YK_CONSTRAINT_JSON_SCHEMA] = "json_schema",
                                      [YK_CONSTRAINT_REGEX] = "regex",
                                      [YK_CONSTRAINT_CHOICE] = "choice",
                                      [YK_CONSTRAINT_GRAMMAR] = "grammar",
                                      [YK_CONSTRAINT_STRUCTURAL_TAG] = "structural_tag"};
  compiler_slot *slot;
  yk_status status = YK_OK;
  yk_strbuf form = YK_STRBUF_INIT;
  YK_TRY(take_compiler(g, &slot, err));
  pthread_mutex_lock(&g->cache_mutex);
  bool is_there = find(g, kind, text, n_bytes) != NULL;
  pthread_mutex_unlock(&g->cache_mutex);
  if (!is_there) status = yk_grammar_compile(slot->compiler, names[kind], text, n_bytes, &form, err);
  give_compiler_back(g, slot);
  if (!is_there && status == YK_OK) status = add(g, kind, text, n_bytes, &form, err);
  yk_strbuf_free(&form);
  return status;
}

/* The model's end ids, and those without text: the constraint's text cannot contain them. */
static size_t without_text(const yk_grammars *g, const int32_t *end_ids, size_t n_end_ids, int32_t *out)
{
  size_t n = 0, n_bytes;
  for (size_t i = 0; i < n_end_ids; i++) {
    bool is_of_model = false;
    for (size_t j = 0; j < g->options.n_end_ids; j++) is_of_model |= g->options.end_ids[j] == end_ids[i];
    yk_token_bytes_of(&g->tokens, end_ids[i], &n_bytes);
    if (is_of_model || n_bytes == 0) out[n++] = end_ids[i];
  }
  return n;
}

yk_status yk_grammars_match(yk_grammars *g, yk_constraint_kind kind, const char *text, size_t n_bytes,
                            const int32_t *end_ids, size_t n_end_ids, yk_matcher **out, yk_err *err)
{
  size_t n_valid_bytes = yk_utf8_valid_bytes(text, n_bytes);
  *out = NULL;
  if (n_valid_bytes < n_bytes)
    return yk_err_set(err, YK_E_INVAL, "expected UTF-8, found byte 0x%02X at offset %zu",
                      (unsigned)(unsigned char)text[n_valid_bytes], n_valid_bytes);
  int32_t *ends = malloc((n_end_ids + 1) * sizeof *ends);
  if (!ends) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu ids", n_end_ids);
  yk_status status = YK_OK;
  for (bool found = false; status == YK_OK && !found;) { /* again if the constraint was dropped at once */
    pthread_mutex_lock(&g->cache_mutex);
    bool is_loaded = g->library != NULL;
    pthread_mutex_unlock(&g->cache_mutex);
    size_t n_ends = is_loaded ? without_text(g, end_ids, n_end_ids, ends) : 0;
    if (is_loaded) status = match_cached(g, kind, text, n_bytes, ends, n_ends, &found, out, err);
    if (status != YK_OK || found) break;
    status = compile(g, kind, text, n_bytes, err);
  }
  free(ends);
  return status;
}

/* ---- Matchers ---------------------------------------------------------------------------------------------------- */

/* Continues the output by bytes [n_bytes], which the method gets as its argument. False: nothing has changed. */
static bool accept(yk_matcher *matcher, yk_grammar_method method, yk_ffi_any argument, const char *bytes,
                   size_t n_bytes)
{
  yk_cut_character cut = matcher->cut;
  yk_ffi_any result, args[] = {matcher->object, argument, yk_ffi_bool(false)};
  if (!yk_cut_character_extend(&cut, bytes, n_bytes) ||
      yk_grammar_call(matcher->grammars->library, method, args, 3, &result, NULL) != YK_OK || !result.integer)
    return false;
  matcher->cut = cut;
  return true;
}

bool yk_matcher_accept(yk_matcher *matcher, int32_t id)
{
  size_t n_bytes;
  const char *bytes = yk_token_bytes_of(&matcher->grammars->tokens, id, &n_bytes);
  return accept(matcher, YK_MATCHER_ACCEPT, yk_ffi_int(id), bytes, n_bytes);
}

bool yk_matcher_accept_text(yk_matcher *matcher, const char *text, size_t n_bytes)
{
  yk_ffi_bytes bytes = {text, n_bytes};
  return accept(matcher, YK_MATCHER_ACCEPT_TEXT, yk_ffi_bytes_of(&bytes), text, n_bytes);
}

void yk_matcher_restart(yk_matcher *matcher)
{
  yk_ffi_any result;
  matcher->cut = (yk_cut_character){0};
  yk_grammar_call(matcher->grammars->library, YK_MATCHER_RESTART, &matcher->object, 1, &result, NULL);
}

bool yk_matcher_has_ended(yk_matcher *matcher)
{
  yk_ffi_any result;
  return yk_grammar_call(matcher->grammars->library, YK_MATCHER_HAS_ENDED, &matcher->object, 1, &result, NULL) ==
             YK_OK &&
         result.integer;
}

/* Clears the bit of a token that the matcher would refuse. */
static yk_status exclude_unless_accepted(yk_matcher *matcher, int32_t id, uint32_t *words, yk_err *err)
{
  const yk_cut_character cut = matcher->cut;
  yk_ffi_any result, args[] = {matcher->object, yk_ffi_int(1)};
  if (!yk_matcher_accept(matcher, id)) {
    yk_id_bits_remove(words, id);
    return YK_OK;
  }
  matcher->cut = cut;
  return yk_grammar_call(matcher->grammars->library, YK_MATCHER_TAKE_BACK, args, 2, &result, err);
}

yk_status yk_matcher_fill(yk_matcher *matcher, uint32_t *words, yk_err *err)
{
  const yk_grammars *g = matcher->grammars;
  YK_TRY(yk_grammar_fill_mask(g->library, matcher->object, words, g->options.n_ids, err));
  yk_cut_tokens_exclude(&g->cut, matcher->cut, words);
  for (size_t i = 0; i < g->cut.n_suspects; i++)
    if (yk_suspect_token_needs_check(g->cut.suspects[i], words))
      YK_TRY(exclude_unless_accepted(matcher, g->cut.suspects[i].id, words, err));
  return YK_OK;
}

void yk_matcher_exclude_after(yk_matcher *matcher, const char *tag, uint32_t *words)
{
  const yk_token_bytes *tokens = &matcher->grammars->tokens;
  size_t n_tag = strlen(tag), n_bytes;
  yk_matcher_restart(matcher);
  for (int32_t id = 0; id < tokens->n_ids; id++) {
    const char *bytes = yk_token_bytes_of(tokens, id, &n_bytes);
    if (n_bytes <= n_tag || memcmp(bytes, tag, n_tag) != 0) continue;
    size_t begin = n_tag;
    while (begin < n_bytes && strchr(" \t\r\n", bytes[begin]) && bytes[begin]) begin++;
    if (begin == n_bytes) continue;
    if (!yk_matcher_accept_text(matcher, bytes + begin, n_bytes - begin)) yk_id_bits_remove(words, id);
    yk_matcher_restart(matcher);
  }
}

void yk_matcher_free(yk_matcher *matcher)
{
  if (!matcher) return;
  yk_grammar_release(matcher->grammars->library, &matcher->object);
  free(matcher);
}
