#include "cli/batch/batch_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/name_nearest.h"
#include "openai/protocol.h"

static yk_status check_keys(yk_json root, yk_err *err)
{
  static const char *const names[] = {"custom_id", "method", "url", "body"};
  YK_JSON_EACH_KEY(key, root)
  {
    const char *name = yk_json_text(key);
    bool known = false;
    for (size_t i = 0; i < 4; i++) known |= yk_json_equals(key, names[i]);
    if (known) continue;
    const char *nearest = yk_name_nearest(name, names, 4);
    if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", name, nearest);
    return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"", name);
  }
  return YK_OK;
}

static yk_status find_protocol(const char *url, const yk_protocol **out, yk_err *err)
{
  static const struct {
    const char *url;
    const yk_protocol *protocol;
  } known[] = {{"/v1/completions", &yk_protocol_completions},
               {"/v1/chat/completions", &yk_protocol_chat},
               {"/v1/responses", &yk_protocol_responses},
               {"/v1/embeddings", &yk_protocol_embeddings}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(url, known[i].url) != 0) continue;
    *out = known[i].protocol;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "url: expected /v1/completions, /v1/chat/completions, /v1/responses or /v1/embeddings, found "
                    "\"%.80s\"",
                    url);
}

static yk_status check_openai(yk_json root, yk_json id, const yk_protocol **protocol, yk_err *err)
{
  const char *url;
  YK_TRY(check_keys(root, err));
  YK_TRY(yk_json_is(id, YK_JSON_STRING) ? YK_OK : yk_json_wrong_type(NULL, "custom_id", "a string", id, err));
  if (!yk_json_equals(yk_json_get(root, "method"), "POST"))
    return yk_err_set(err, YK_E_INVAL, "method: expected \"POST\"");
  YK_TRY(yk_json_read_str(yk_json_get(root, "url"), NULL, "url", &url, err));
  return find_protocol(url, protocol, err);
}

static yk_status check_plain(yk_json root, const char *id_key, yk_json id, yk_err *err)
{
  if (yk_json_get(root, "id").doc && yk_json_get(root, "custom_id").doc)
    return yk_err_set(err, YK_E_INVAL, "expected one of the keys \"id\" and \"custom_id\", found both");
  if (!yk_json_is_given(id) || yk_json_is(id, YK_JSON_STRING) || yk_json_is_integer(id)) return YK_OK;
  return yk_json_wrong_type(NULL, id_key, "a string or an integer", id, err);
}

/* Reads form and id first, since an error's line needs them too. */
static yk_status read_ticket(yk_batch_ticket *ticket, yk_json root, yk_json *id, yk_err *err)
{
  yk_json custom_id = yk_json_get(root, "custom_id");
  bool is_openai = yk_json_get(root, "body").doc || yk_json_get(root, "url").doc || yk_json_get(root, "method").doc;
  ticket->form = is_openai ? YK_BATCH_OPENAI : YK_BATCH_PLAIN;
  ticket->id_key = is_openai || custom_id.doc ? "custom_id" : "id";
  *id = yk_json_get(root, ticket->id_key);
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_append(&text, *id, 0);
  if (text.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for a line's id");
  ticket->id = text.data;
  return YK_OK;
}

/* protocol: NULL for a plain line. Takes ownership of the document. */
static yk_status read_request(yk_json_doc *document, yk_json object, const yk_protocol *protocol,
                              const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err)
{
  if (!protocol) return yk_openai_request_parse(document, object, YK_FORM_PLAIN, defaults, out, err);
  YK_TRY(yk_protocol_read(protocol, document, object, defaults, out, err));
  if (!out->is_empty) return YK_OK;
  snprintf(out->param, sizeof out->param, "input");
  return yk_err_set(err, YK_E_INVAL, "input: expected at least one item, found none");
}

/* Takes ownership of the document. */
static yk_status read(yk_batch_line *line, yk_json_doc *document, const yk_openai_defaults *defaults, yk_err *err)
{
  yk_json root = yk_json_root(document), object = root, id = YK_JSON_NONE;
  const yk_protocol *protocol = NULL;
  yk_status status = YK_OK;
  if (!yk_json_is(root, YK_JSON_OBJECT))
    status = yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_json_type_name(root));
  if (status == YK_OK) status = read_ticket(&line->ticket, root, &id, err);
  if (status == YK_OK && line->ticket.form == YK_BATCH_OPENAI) {
    object = yk_json_get(root, "body");
    status = check_openai(root, id, &protocol, err);
  } else if (status == YK_OK) {
    status = check_plain(root, line->ticket.id_key, id, err);
  }
  if (status == YK_OK) return read_request(document, object, protocol, defaults, &line->request, err);
  yk_json_free(document);
  return status;
}

yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_openai_defaults *defaults, yk_batch_line *out, yk_err *err)
{
  static const yk_json_rules rules = {.max_depth = YK_OPENAI_MAX_DEPTH, .is_line = true};
  yk_json_doc *document;
  *out = (yk_batch_line){.ticket = {.number = number, .hash = hash, .id_key = "id"}};
  YK_TRY(yk_json_parse("line", text, n_bytes, &rules, &document, err));
  return read(out, document, defaults, err);
}

void yk_batch_ticket_free(yk_batch_ticket *ticket)
{
  free(ticket->id);
  ticket->id = NULL;
}

void yk_batch_line_free(yk_batch_line *line)
{
  yk_openai_request_free(&line->request);
  yk_batch_ticket_free(&line->ticket);
}
