#include "openai/token_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct token_text {
  size_t n_bytes;
  char text[];
} token_text;

struct yk_token_texts {
  const yk_engine *engine; /* NULL without a tokenizer */
  int32_t n_ids;           /* 0 without an engine: only the last text is kept then */
  token_text **kept;       /* [n_ids], each owned, NULL until requested */
  token_text *last;        /* text of an id outside this range */
};

yk_status yk_token_texts_create(const yk_engine *engine, yk_token_texts **out, yk_err *err)
{
  yk_engine_info info = {0};
  if (engine) yk_engine_get_info(engine, &info);
  yk_token_texts *texts = calloc(1, sizeof *texts);
  token_text **kept = calloc((size_t)info.vocab_size + 1, sizeof *kept);
  *out = NULL;
  if (!texts || !kept) {
    free(texts);
    free(kept);
    return yk_err_set(err, YK_E_NOMEM, "no memory for the texts of tokens");
  }
  *texts = (yk_token_texts){.engine = info.has_tokenizer ? engine : NULL, .n_ids = info.vocab_size, .kept = kept};
  *out = texts;
  return YK_OK;
}

const yk_engine *yk_token_texts_engine(const yk_token_texts *texts)
{
  return texts->engine;
}

void yk_token_texts_free(yk_token_texts *texts)
{
  if (!texts) return;
  for (int32_t i = 0; i < texts->n_ids; i++) free(texts->kept[i]);
  free(texts->kept);
  free(texts->last);
  free(texts);
}

static token_text *make(const char *text, size_t n_bytes)
{
  token_text *made = malloc(sizeof *made + n_bytes + 1);
  if (!made) return NULL;
  made->n_bytes = n_bytes;
  if (n_bytes) memcpy(made->text, text, n_bytes);
  made->text[n_bytes] = '\0';
  return made;
}

/* Some tokens lose a space at the beginning of a text, so the text is the difference between two occurrences of the
 * token and one. An id without a text has an empty text. NULL: no memory. */
static token_text *find_out(const yk_engine *engine, int32_t id)
{
  char *once = NULL, *twice = NULL;
  size_t n_once = 0, n_twice = 0;
  yk_status status = yk_engine_detokenize(engine, &id, 1, false, &once, &n_once, NULL);
  if (status == YK_OK) status = yk_engine_detokenize(engine, (int32_t[]){id, id}, 2, false, &twice, &n_twice, NULL);
  bool adds = n_once > 0 && n_twice > n_once && memcmp(once, twice, n_once) == 0;
  token_text *found = NULL;
  if (status != YK_E_NOMEM) found = adds ? make(twice + n_once, n_twice - n_once) : make(once, n_once);
  free(once);
  free(twice);
  return found;
}

static token_text *find_or_name(const yk_engine *engine, int32_t id)
{
  char name[32];
  if (engine) return find_out(engine, id);
  int length = snprintf(name, sizeof name, "token_id:%d", id);
  return make(name, (size_t)length);
}

yk_status yk_token_text(yk_token_texts *texts, int32_t id, const char **text, size_t *n_bytes, yk_err *err)
{
  bool is_kept = id >= 0 && id < texts->n_ids;
  token_text **place = is_kept ? &texts->kept[id] : &texts->last;
  if (!is_kept) {
    free(texts->last);
    texts->last = NULL;
  }
  if (!*place) *place = find_or_name(texts->engine, id);
  *text = *place ? (*place)->text : NULL;
  *n_bytes = *place ? (*place)->n_bytes : 0;
  return *place ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the text of token %d", id);
}

yk_status yk_token_texts_decode(yk_token_texts *texts, const int32_t *ids, size_t n_ids, yk_strbuf *out, yk_err *err)
{
  char *text = NULL;
  size_t n_bytes = 0;
  if (!texts->engine) return YK_OK;
  YK_TRY(yk_engine_detokenize(texts->engine, ids, n_ids, true, &text, &n_bytes, err));
  yk_strbuf_append(out, text, n_bytes);
  free(text);
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the text of %zu token ids", n_ids) : YK_OK;
}
