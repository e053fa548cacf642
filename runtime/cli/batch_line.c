#include "cli/batch_line.h"

#include <string.h>

#include "base/json_tree.h"
#include "base/name_nearest.h"
#include "openai/values.h"

static yk_status check_keys(const json_t *root, yk_err *err)
{
  static const char *const names[] = {"custom_id", "method", "url", "body"};
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)root, name, value)
  {
    bool known = false;
    for (size_t i = 0; i < 4; i++) known |= strcmp(name, names[i]) == 0;
    if (known) continue;
    const char *nearest = yk_name_nearest(name, names, 4);
    if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", name, nearest);
    return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"", name);
  }
  return YK_OK;
}

/* What the url stands for. */
static yk_status find_form(const char *url, yk_openai_form *form, yk_err *err)
{
  bool is_chat = strcmp(url, "/v1/chat/completions") == 0;
  *form = is_chat ? YK_FORM_CHAT : YK_FORM_COMPLETION;
  if (is_chat || strcmp(url, "/v1/completions") == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "url: expected /v1/completions or /v1/chat/completions, found \"%.80s\"",
                    url);
}

static yk_status read_openai(yk_batch_line *line, const yk_openai_document *document,
                             const yk_openai_defaults *defaults, yk_err *err)
{
  const json_t *root = document->root;
  const char *method = json_string_value(json_object_get(root, "method")), *url;
  yk_openai_form form;
  YK_TRY(check_keys(root, err));
  if (!json_is_string(line->ticket.id)) return yk_value_wrong_type("custom_id", "a string", line->ticket.id, err);
  if (!method || strcmp(method, "POST") != 0) return yk_err_set(err, YK_E_INVAL, "method: expected \"POST\"");
  YK_TRY(yk_value_read_string("url", json_object_get(root, "url"), &url, err));
  YK_TRY(find_form(url, &form, err));
  return yk_openai_request_parse(document, json_object_get(root, "body"), form, defaults, &line->request, err);
}

static yk_status read_plain(yk_batch_line *line, const yk_openai_document *document, const yk_openai_defaults *defaults,
                            yk_err *err)
{
  const json_t *id = line->ticket.id;
  if (json_object_get(document->root, "id") && json_object_get(document->root, "custom_id"))
    return yk_err_set(err, YK_E_INVAL, "expected one of the keys \"id\" and \"custom_id\", found both");
  if (!json_is_string(id) && !json_is_integer(id) && !json_is_null(id))
    return yk_value_wrong_type(line->ticket.id_key, "a string or an integer", id, err);
  return yk_openai_request_parse(document, document->root, YK_FORM_PLAIN, defaults, &line->request, err);
}

/* The form and the id first: an error object wants them too. */
static void read_ticket(yk_batch_ticket *ticket, json_t *root)
{
  json_t *custom_id = json_object_get(root, "custom_id"), *id = json_object_get(root, "id");
  bool is_openai = json_object_get(root, "body") || json_object_get(root, "url") || json_object_get(root, "method");
  ticket->form = is_openai ? YK_BATCH_OPENAI : YK_BATCH_PLAIN;
  ticket->id_key = is_openai || custom_id ? "custom_id" : "id";
  if (!custom_id && !is_openai) custom_id = id;
  if (custom_id) ticket->id = json_incref(custom_id);
}

static yk_status read(yk_batch_line *line, const yk_openai_document *document, const yk_openai_defaults *defaults,
                      yk_err *err)
{
  if (!json_is_object(document->root))
    return yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_tree_type_name(document->root));
  read_ticket(&line->ticket, document->root);
  if (line->ticket.form == YK_BATCH_OPENAI) return read_openai(line, document, defaults, err);
  return read_plain(line, document, defaults, err);
}

yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_openai_defaults *defaults, yk_batch_line *out, yk_err *err)
{
  yk_openai_document document;
  *out = (yk_batch_line){.ticket = {.number = number, .hash = hash, .id_key = "id", .id = json_null()}};
  yk_status status = yk_openai_document_parse(NULL, text, n_bytes, &document, err);
  if (status == YK_OK) status = read(out, &document, defaults, err);
  yk_openai_document_free(&document);
  return status;
}

void yk_batch_ticket_free(yk_batch_ticket *ticket)
{
  json_decref(ticket->id);
  ticket->id = NULL;
}

void yk_batch_line_free(yk_batch_line *line)
{
  yk_openai_request_free(&line->request);
  yk_batch_ticket_free(&line->ticket);
}
