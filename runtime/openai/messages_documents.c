/* messages_documents.c - documents and search results of Anthropic's messages, as texts: each field between tags, as
 * Anthropic's guide to prompts writes documents in a text. */
#include <stdio.h>

#include "base/json_write.h"
#include "openai/messages_request.h"

/* A document or search result that is being read. */
typedef struct reader {
  yk_translation *t;
  yk_json block;
  char place[YK_OPENAI_PARAM_BYTES];
  yk_strbuf text;
} reader;

static void at(const reader *r, const char *member)
{
  yk_translation_at(r->t, "%s.%s", r->place, member);
}

static yk_status wrong(const reader *r, const char *expected, yk_json found, yk_err *err)
{
  return yk_translation_wrong(r->t, expected, found, err);
}

/* Adds "<tag>value</tag>" and a newline. Without the member nothing is added, if it is optional. */
static yk_status add_member(reader *r, const char *tag, bool is_optional, yk_err *err)
{
  yk_json value = yk_json_get(r->block, tag);
  if (is_optional && !yk_json_is_given(value)) return YK_OK;
  at(r, tag);
  if (!yk_json_is(value, YK_JSON_STRING)) return wrong(r, "a string", value, err);
  yk_strbuf_append_fmt(&r->text, "<%s>", tag);
  yk_strbuf_append(&r->text, yk_json_text(value), yk_json_length(value));
  yk_strbuf_append_fmt(&r->text, "</%s>\n", tag);
  return YK_OK;
}

static void add_line(reader *r, yk_json text)
{
  yk_strbuf_append(&r->text, yk_json_text(text), yk_json_length(text));
  yk_strbuf_append_str(&r->text, "\n");
}

/* The texts of a list of blocks, each on separate lines. */
static yk_status add_blocks(reader *r, const char *member, yk_json blocks, yk_err *err)
{
  size_t i = 0;
  at(r, member);
  if (!yk_json_is(blocks, YK_JSON_ARRAY)) return wrong(r, "an array of texts", blocks, err);
  YK_JSON_EACH(block, blocks)
  {
    yk_json type = yk_json_get(block, "type"), text = yk_json_get(block, "text");
    yk_translation_at(r->t, "%s.%s[%zu]", r->place, member, i++);
    if (yk_json_is(type, YK_JSON_STRING) && !yk_json_equals(type, "text"))
      return yk_translation_refuse(r->t, YK_E_UNSUPPORTED, err, "content of type \"%.40s\" is not supported",
                                   yk_json_text(type));
    if (!yk_json_is(text, YK_JSON_STRING)) return wrong(r, "an object with a \"text\"", block, err);
    add_line(r, text);
  }
  return YK_OK;
}

/* The text of a document; files of other types are not read here. */
static yk_status add_source(reader *r, yk_err *err)
{
  yk_json source = yk_json_get(r->block, "source"), type = yk_json_get(source, "type");
  bool is_blocks = yk_json_equals(type, "content");
  yk_json content = yk_json_get(source, is_blocks ? "content" : "data");
  at(r, "source");
  if (!yk_json_is(type, YK_JSON_STRING)) return wrong(r, "an object with a \"type\"", source, err);
  if (!is_blocks && !yk_json_equals(type, "text"))
    return yk_translation_refuse(
        r->t, YK_E_UNSUPPORTED, err,
        "PDF files and other sources of type \"%.40s\" are not supported; send their text in a "
        "source of type \"text\"",
        yk_json_text(type));
  if (is_blocks && !yk_json_is(content, YK_JSON_STRING)) return add_blocks(r, "source.content", content, err);
  at(r, is_blocks ? "source.content" : "source.data");
  if (!yk_json_is(content, YK_JSON_STRING)) return wrong(r, "a string", content, err);
  add_line(r, content);
  return YK_OK;
}

static yk_status add_document(reader *r, yk_err *err)
{
  yk_strbuf_append_str(&r->text, "<document>\n");
  YK_TRY(add_member(r, "title", true, err));
  YK_TRY(add_member(r, "context", true, err));
  yk_strbuf_append_str(&r->text, "<document_content>\n");
  YK_TRY(add_source(r, err));
  yk_strbuf_append_str(&r->text, "</document_content>\n</document>");
  return YK_OK;
}

static yk_status add_search_result(reader *r, yk_err *err)
{
  yk_strbuf_append_str(&r->text, "<search_result>\n");
  YK_TRY(add_member(r, "source", false, err));
  YK_TRY(add_member(r, "title", false, err));
  yk_strbuf_append_str(&r->text, "<content>\n");
  YK_TRY(add_blocks(r, "content", yk_json_get(r->block, "content"), err));
  yk_strbuf_append_str(&r->text, "</content>\n</search_result>");
  return YK_OK;
}

bool yk_messages_is_document(yk_json type)
{
  return yk_json_equals(type, "document") || yk_json_equals(type, "search_result");
}

yk_status yk_messages_read_document(yk_translation *t, yk_json block, yk_err *err)
{
  reader r = {.t = t, .block = block};
  bool is_document = yk_json_equals(yk_json_get(block, "type"), "document");
  snprintf(r.place, sizeof r.place, "%s", t->param);
  yk_status status = is_document ? add_document(&r, err) : add_search_result(&r, err);
  if (status == YK_OK && !r.text.failed) yk_translation_text(t, r.text.data, r.text.length);
  t->failed |= r.text.failed;
  yk_strbuf_free(&r.text);
  return status;
}
