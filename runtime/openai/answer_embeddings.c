/* answer_embeddings.c - the answer to /v1/embeddings: a list with the embedding of each input. */
#include <string.h>

#include "base/json_write.h"
#include "openai/answer_write.h"

static void append_floats(yk_strbuf *out, const float *numbers, size_t n)
{
  yk_strbuf_append_str(out, "[");
  for (size_t i = 0; i < n; i++) {
    if (i) yk_strbuf_append_str(out, ",");
    yk_json_append_real(out, (double)numbers[i]);
  }
  yk_strbuf_append_str(out, "]");
}

/* The bytes of the float32 numbers, little-endian as on every host that Yoke runs on, in base64 (RFC 4648). */
static void append_base64(yk_strbuf *out, const float *numbers, size_t n)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *bytes = (const unsigned char *)numbers;
  size_t n_bytes = n * sizeof *numbers;
  yk_strbuf_append_str(out, "\"");
  for (size_t at = 0; at < n_bytes; at += 3) {
    size_t n_left = n_bytes - at < 3 ? n_bytes - at : 3;
    uint32_t group = (uint32_t)bytes[at] << 16;
    if (n_left > 1) group |= (uint32_t)bytes[at + 1] << 8;
    if (n_left > 2) group |= bytes[at + 2];
    char text[4] = {digits[group >> 18], digits[group >> 12 & 63], '=', '='};
    if (n_left > 1) text[2] = digits[group >> 6 & 63];
    if (n_left > 2) text[3] = digits[group & 63];
    yk_strbuf_append(out, text, sizeof text);
  }
  yk_strbuf_append_str(out, "\"");
}

static void take_embedding(yk_answer_choice *c, const float *numbers, size_t n)
{
  if (c->answer->request->is_base64)
    append_base64(&c->text, numbers, n);
  else
    append_floats(&c->text, numbers, n);
}

static void finish(yk_openai_answer *answer, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"id\":");
  yk_strbuf_append(out, answer->id.data, answer->id.length);
  yk_strbuf_append_str(out, ",\"object\":\"list\",\"created\":");
  yk_json_append_i64(out, answer->options.created_s);
  yk_strbuf_append_str(out, ",\"model\":");
  yk_strbuf_append(out, answer->model.data, answer->model.length);
  yk_strbuf_append_str(out, ",\"data\":[");
  for (size_t i = 0; i < answer->n_choices; i++) {
    const yk_strbuf *embedding = &answer->choices[i].text;
    yk_strbuf_append_str(out, i ? ",{" : "{");
    yk_strbuf_append_str(out, "\"object\":\"embedding\",\"index\":");
    yk_json_append_i64(out, (int64_t)i);
    yk_strbuf_append_str(out, ",\"embedding\":");
    yk_strbuf_append(out, embedding->data, embedding->length);
    yk_strbuf_append_str(out, "}");
  }
  int64_t n_prompt = yk_answer_total_usage(answer).n_prompt;
  yk_strbuf_append_str(out, "],\"usage\":{\"prompt_tokens\":");
  yk_json_append_i64(out, n_prompt);
  yk_strbuf_append_str(out, ",\"total_tokens\":");
  yk_json_append_i64(out, n_prompt);
  yk_strbuf_append_str(out, "}}");
}

const yk_answer_writer yk_answer_writer_embeddings = {.take_embedding = take_embedding, .finish = finish};
