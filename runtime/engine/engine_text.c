/* engine_text.c - text to token ids and back, with an engine's tokenizer. */
#include <stdlib.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "engine/engine_internal.h"
#include "text/detokenizer.h"
#include "text/encode_bounded.h"

struct yk_text_stream {
  int32_t n_ids;   /* ids that may occur: ids of the model and of the tokenizer */
  int32_t n_known; /* ids below this may have a text in the tokenizer */
  yk_detokenizer *detokenizer;
  yk_strbuf text; /* the text last returned to the caller */
};

static yk_status need_tokenizer(const yk_engine *engine, yk_err *err)
{
  if (engine->tokenizer) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "text: %s; give token ids", engine->no_tokenizer);
}

static yk_status check_text(const yk_engine *engine, const char *text, size_t n_bytes, yk_err *err)
{
  YK_TRY(need_tokenizer(engine, err));
  if (n_bytes > INT32_MAX)
    return yk_err_set(err, YK_E_INVAL, "text: expected at most %d bytes, found %zu", INT32_MAX, n_bytes);
  return yk_check_array("text", text, n_bytes, err);
}

yk_status yk_engine_tokenize(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                             int32_t **ids, size_t *n_ids, yk_err *err)
{
  return yk_engine_tokenize_bounded(engine, text, n_bytes, add_special_tokens, 0, ids, n_ids, err);
}

yk_status yk_engine_tokenize_bounded(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                     size_t max_ids, int32_t **ids, size_t *n_ids, yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  YK_TRY(check_text(engine, text, n_bytes, err));
  return yk_tokenizer_encode_bounded(engine->tokenizer, text, n_bytes, NULL, add_special_tokens, max_ids, ids, n_ids,
                                     err);
}

yk_status yk_engine_tokenize_last(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                  size_t n_last, int32_t **ids, size_t *n_ids, yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  YK_TRY(check_text(engine, text, n_bytes, err));
  YK_TRY(yk_check_i64("last ids of a text", (int64_t)n_last, 1, INT32_MAX, err));
  return yk_tokenizer_encode_last(engine->tokenizer, text, n_bytes, NULL, add_special_tokens, n_last, ids, n_ids, err);
}

yk_status yk_engine_tokenize_truncated(const yk_engine *engine, const char *text, size_t n_bytes,
                                       bool add_special_tokens, size_t n_most, bool keeps_end, int32_t **ids,
                                       size_t *n_ids, yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  YK_TRY(check_text(engine, text, n_bytes, err));
  YK_TRY(yk_check_i64("most ids of a text", (int64_t)n_most, 1, INT32_MAX, err));
  return yk_tokenizer_encode_truncated(engine->tokenizer, text, n_bytes, add_special_tokens, n_most, keeps_end, ids,
                                       n_ids, err);
}

yk_status yk_text_stream_create(const yk_engine *engine, bool skip_special_tokens, yk_text_stream **out, yk_err *err)
{
  *out = NULL;
  YK_TRY(need_tokenizer(engine, err));
  yk_text_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return yk_err_set(err, YK_E_NOMEM, "no memory for a stream of text");
  stream->n_known = yk_tokenizer_vocab_size(engine->tokenizer);
  stream->n_ids = (int32_t)yk_max_i64(stream->n_known, engine->info.vocab_size);
  yk_status status = yk_detokenizer_create(engine->tokenizer, skip_special_tokens, &stream->detokenizer, err);
  if (status == YK_OK)
    *out = stream;
  else
    free(stream);
  return status;
}

void yk_text_stream_free(yk_text_stream *stream)
{
  if (!stream) return;
  yk_detokenizer_free(stream->detokenizer);
  yk_strbuf_free(&stream->text);
  free(stream);
}

static yk_status check_ids(const yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err)
{
  YK_TRY(yk_check_array("ids", ids, n_ids, err));
  for (size_t i = 0; i < n_ids; i++)
    if (ids[i] < 0 || ids[i] >= stream->n_ids)
      return yk_err_set(err, YK_E_INVAL, "ids: token id %d at index %zu is outside the vocabulary (0 to %d)", ids[i], i,
                        stream->n_ids - 1);
  return YK_OK;
}

/* Append the text of checked ids. */
static yk_status append(yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err)
{
  for (size_t i = 0; i < n_ids; i++)
    if (ids[i] < stream->n_known) YK_TRY(yk_detokenizer_push(stream->detokenizer, ids[i], &stream->text, err));
  return YK_OK;
}

static yk_status give(yk_text_stream *stream, yk_status status, const char **text, size_t *n_bytes, yk_err *err)
{
  if (status != YK_OK) return status;
  if (stream->text.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for the text of token ids");
  *text = stream->text.length ? stream->text.data : "";
  *n_bytes = stream->text.length;
  return YK_OK;
}

yk_status yk_text_stream_continue(yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err)
{
  YK_TRY(check_ids(stream, ids, n_ids, err));
  return yk_detokenizer_continue(stream->detokenizer, ids, n_ids, err);
}

yk_status yk_text_stream_push(yk_text_stream *stream, const int32_t *ids, size_t n_ids, const char **text,
                              size_t *n_bytes, yk_err *err)
{
  *text = NULL;
  *n_bytes = 0;
  YK_TRY(check_ids(stream, ids, n_ids, err));
  yk_strbuf_clear(&stream->text);
  return give(stream, append(stream, ids, n_ids, err), text, n_bytes, err);
}

yk_status yk_text_stream_finish(yk_text_stream *stream, const char **text, size_t *n_bytes, yk_err *err)
{
  *text = NULL;
  *n_bytes = 0;
  yk_strbuf_clear(&stream->text);
  return give(stream, yk_detokenizer_finish(stream->detokenizer, &stream->text, err), text, n_bytes, err);
}

yk_status yk_engine_detokenize(const yk_engine *engine, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                               char **text, size_t *n_bytes, yk_err *err)
{
  yk_text_stream *stream;
  *text = NULL;
  *n_bytes = 0;
  YK_TRY(yk_text_stream_create(engine, skip_special_tokens, &stream, err));
  yk_strbuf_append(&stream->text, "", 0); /* allocates, so that an empty text is memory of the caller's too */
  yk_status status = check_ids(stream, ids, n_ids, err);
  if (status == YK_OK) status = append(stream, ids, n_ids, err);
  if (status == YK_OK) status = yk_detokenizer_finish(stream->detokenizer, &stream->text, err);
  if (status == YK_OK && stream->text.failed)
    status = yk_err_set(err, YK_E_NOMEM, "no memory for the text of %zu token ids", n_ids);
  if (status == YK_OK) {
    *text = stream->text.data;
    *n_bytes = stream->text.length;
    stream->text = YK_STRBUF_INIT;
  }
  yk_text_stream_free(stream);
  return status;
}
