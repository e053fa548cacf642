#include "text/token_bytes.h"

#include <stdlib.h>

#include "text/tokenizer_parts.h"

/* The text of a token in the decoder's input; NULL: none. */
static const char *text_of(const yk_tokenizer *tokenizer, int32_t id, size_t *n_bytes)
{
  if (id >= yk_tokenizer_vocab_size(tokenizer)) return NULL;
  const char *text = yk_tokenizer_token_text(tokenizer, id, n_bytes);
  int32_t added = text ? yk_vocab_entry_of(&tokenizer->added.contents, id) : -1;
  if (added < 0) return text;
  const yk_added_token *token = &tokenizer->added.tokens[added];
  if (token->special || token->skipped) return NULL;
  if (!token->normal_form) return text;
  *n_bytes = token->normal_form_bytes;
  return token->normal_form;
}

static yk_status fill(const yk_tokenizer *tokenizer, yk_decoder_stream *stream, yk_token_bytes *out, yk_err *err)
{
  for (int32_t id = 0; id < out->n_ids; id++) {
    size_t n_bytes;
    const char *text = text_of(tokenizer, id, &n_bytes);
    if (text) YK_TRY(yk_decoder_stream_token_bytes(stream, text, n_bytes, &out->bytes, err));
    out->ends[id] = out->bytes.length;
  }
  return YK_OK;
}

yk_status yk_token_bytes_create(const yk_tokenizer *tokenizer, int32_t n_ids, yk_token_bytes *out, yk_err *err)
{
  yk_decoder_stream stream;
  *out = (yk_token_bytes){.n_ids = n_ids};
  out->ends = calloc((size_t)n_ids + 1, sizeof *out->ends);
  if (!out->ends) return yk_err_set(err, YK_E_NOMEM, "no memory for the bytes of %d tokens", n_ids);
  yk_status status = yk_decoder_stream_init(&stream, &tokenizer->decoder, err);
  if (status == YK_OK) {
    status = fill(tokenizer, &stream, out, err);
    yk_decoder_stream_free(&stream);
  }
  if (status != YK_OK) yk_token_bytes_free(out);
  return status;
}

void yk_token_bytes_free(yk_token_bytes *tokens)
{
  yk_strbuf_free(&tokens->bytes);
  free(tokens->ends);
  *tokens = (yk_token_bytes){0};
}

const char *yk_token_bytes_of(const yk_token_bytes *tokens, int32_t id, size_t *n_bytes)
{
  *n_bytes = 0;
  if (id < 0 || id >= tokens->n_ids) return "";
  size_t begin = id > 0 ? tokens->ends[id - 1] : 0;
  *n_bytes = tokens->ends[id] - begin;
  return *n_bytes ? tokens->bytes.data + begin : "";
}
